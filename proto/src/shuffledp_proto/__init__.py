"""Wire definitions of shuffledp: the .proto files and the code generated from them."""
