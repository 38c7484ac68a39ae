"""Plimsoll where people are: transformers, Lightning, accelerate, pytest, IPython, Gradio; each imported only when used."""
