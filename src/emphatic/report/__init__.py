"""What a run or a study looks like, read from run folders."""
