"""Modules shaped like those of other libraries, for code that is written against them."""
