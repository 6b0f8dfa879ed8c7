"""Who steps environments, calls the learner and keeps what a run leaves behind."""
