"""What a finite MDP says."""
