"""What certify looks at besides the reward: one file a check, each a function of a CheckContext."""
