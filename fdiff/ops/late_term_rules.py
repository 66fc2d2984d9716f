"""Rules of terms as tables of ops name them: the first derivative that asks for one imports them."""

from __future__ import annotations

from ..process.forking import late

concatenated = late("term_rules", __package__, "concatenated")
converted = late("term_rules", __package__, "converted")
gathered = late("term_rules", __package__, "gathered")
multiplied = late("term_rules", __package__, "multiplied")
reshaped = late("term_rules", __package__, "reshaped")
scattered = late("term_rules", __package__, "scattered")
scattered_sum = late("term_rules", __package__, "scattered_sum")
selected = late("term_rules", __package__, "selected")
signed = late("term_rules", __package__, "signed")
sliced = late("term_rules", __package__, "sliced")
transposed = late("term_rules", __package__, "transposed")
unsliced = late("term_rules", __package__, "unsliced")
updated = late("term_rules", __package__, "updated")
contracted = late("term_rules_of_sums", __package__, "contracted")
cumulated = late("term_rules_of_sums", __package__, "cumulated")
first_operand = late("term_rules_of_sums", __package__, "first_operand")
summed = late("term_rules_of_sums", __package__, "summed")
