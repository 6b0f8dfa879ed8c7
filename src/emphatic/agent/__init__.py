"""The agent: networks, learner and presets of Surreal and its emphatic family."""
