"""Pure numerics: the guarantee of each mechanism. No network, no clock, no files.

`bounds` holds the vocabulary and the dispatch; one module per mechanism registers its analysis
there.
"""
