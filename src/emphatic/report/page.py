"""The report as one HTML page that needs nothing else: no network, no other file.

    page.write(
        out,                      # folder: index.html, and figures/ and data/ it is made of
        collection,               # collect.collect(paths)
        title="minatar5",
        command=sys.argv,         # shown on the page: how to make it again
        tables=[...],             # content.Table, in the order they are shown; the first is the
                                  # summary (the paper's Table 2)
        statements=[...],         # content.Statement: statistics in words
        improvements=[...],       # content.Bars: one for each agent and baseline
        charts=[...],             # content.Chart: median over environments, performance profiles
    ) -> list[pathlib.Path]       # what was written, index.html first

Learning curves by environment and the health of the heads are made here, from the collection.
What is given as an empty list has no section. The same input makes the same bytes.
"""
