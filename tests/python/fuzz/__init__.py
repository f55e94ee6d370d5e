"""Random tensor programs, computed by Lathe and by evaluators that share no code with it.

`program.py` is a program as data, `table.py` and `ops_*.py` the ops (one row each, as text in three languages), `generate.py`
draws programs, `evaluate.py` computes them, `compare.py` says what may differ, `shrink.py` makes a finding small. Run it with
`make fuzz` or `python -m fuzz`.
"""
