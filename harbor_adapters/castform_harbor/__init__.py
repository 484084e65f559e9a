"""Harbor's task folders, run by a runner of our own.

task     a folder becomes a HarborTask
tasks    a folder of folders, or a registry file, becomes a list of them
trial    one attempt at a task: box, agent, verification, reward
rewards  what a verifier wrote becomes named numbers, or an error

Nothing here imports Harbor.
"""
