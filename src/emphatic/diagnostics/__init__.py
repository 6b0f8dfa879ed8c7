"""The paper's diagnostic experiments: small problems on which off-policy TD breaks.

`problems` states them, `learners` runs every algorithm on a stream of their transitions,
`sweeps` does so for every step size, bootstrap length and run at once, `claims` holds
what comes out against what the paper says, `figures` draws it.
"""
