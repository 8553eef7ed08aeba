"""A second evaluator of the language, slow and plain: every choice is made before anything is computed.

It shares the parser, the operations' rules for plain types and graphs with archir, and nothing of what elaborates.
"""
