"""Studies: environments x agents x seeds, as runs that are planned, run, watched and added to.

spec      what a study is: study.json, and the configuration of each of its runs
presets   studies by name: atari57, minatar5
ledger    who is running what, and how each attempt ended
work      one run: trained, then evaluated
runner    which run is next; local, cluster: where it happens
status    how far a study is
costs     what a run costs; machines: what computes it; plan: both, for a study
"""
