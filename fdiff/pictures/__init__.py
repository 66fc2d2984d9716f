"""Pictures in SVG, which need no package: in Jupyter by themselves, and in files.

Text and lines have the colour of the page that they stand on, filled areas colours that can be seen
on light and on dark ones. `svg` writes, `picture` shows and saves, `matrices` and `layered_layout`
say what is drawn where.
"""

from .picture import Picture as Picture
