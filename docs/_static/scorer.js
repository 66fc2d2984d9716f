// Sphinx's points for results of a search. A public function comes before what shares its name.
var Scorer = {
  score: (result) => {
    const [docname, , , , score] = result;
    return /^generated\/fdiff\.\w+$/.test(docname) ? score + 50 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
