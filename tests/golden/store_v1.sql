-- A run store of version 1, as castform 0.1 made it. SERIAL is INTEGER in SQLite.
CREATE TABLE castform_schema (
  version SERIAL NOT NULL,
  PRIMARY KEY (version)
);
CREATE TABLE runs (
  run_id VARCHAR(64) NOT NULL,
  kind VARCHAR(32) NOT NULL,
  name TEXT NOT NULL,
  status VARCHAR(16) NOT NULL,
  created FLOAT NOT NULL,
  updated FLOAT NOT NULL,
  heartbeat FLOAT,
  host VARCHAR(255),
  pid INTEGER,
  pid_started VARCHAR(64),
  stop_requested FLOAT,
  error TEXT,
  run_dir TEXT,
  config TEXT NOT NULL,
  environment TEXT NOT NULL,
  PRIMARY KEY (run_id)
);
CREATE INDEX runs_by_created ON runs (created);
CREATE TABLE evals (
  eval_id SERIAL NOT NULL,
  run_id VARCHAR(64) NOT NULL,
  label VARCHAR(255) NOT NULL,
  step INTEGER NOT NULL,
  at FLOAT NOT NULL,
  result TEXT NOT NULL,
  PRIMARY KEY (eval_id),
  FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX evals_by_run ON evals (run_id, eval_id);
CREATE TABLE events (
  event_id SERIAL NOT NULL,
  run_id VARCHAR(64) NOT NULL,
  at FLOAT NOT NULL,
  kind VARCHAR(64) NOT NULL,
  step INTEGER,
  data TEXT NOT NULL,
  PRIMARY KEY (event_id),
  FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX events_by_run ON events (run_id, event_id);
CREATE TABLE rollouts (
  row_id SERIAL NOT NULL,
  run_id VARCHAR(64) NOT NULL,
  rollout_id VARCHAR(255) NOT NULL,
  mode VARCHAR(64) NOT NULL,
  step INTEGER NOT NULL,
  group_id VARCHAR(255) NOT NULL,
  example_id TEXT NOT NULL,
  sample INTEGER NOT NULL,
  split VARCHAR(16) NOT NULL,
  score FLOAT,
  rewards TEXT NOT NULL,
  termination_reason TEXT NOT NULL,
  error TEXT,
  disposition TEXT,
  transcript TEXT NOT NULL,
  seed VARCHAR(20) NOT NULL,
  seconds FLOAT NOT NULL,
  turns INTEGER NOT NULL,
  prompt_tokens INTEGER,
  completion_tokens INTEGER,
  calls_path TEXT,
  call_ids TEXT NOT NULL,
  PRIMARY KEY (row_id),
  UNIQUE (run_id, rollout_id),
  FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX rollouts_by_step ON rollouts (run_id, mode, step, row_id);
CREATE TABLE scalars (
  run_id VARCHAR(64) NOT NULL,
  mode VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  step INTEGER NOT NULL,
  value FLOAT,
  PRIMARY KEY (run_id, mode, name, step),
  FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
INSERT INTO castform_schema VALUES (1);
INSERT INTO runs (run_id, kind, name, status, created, updated, config, environment) VALUES ('old1', 'eval', 'n', 'finished', 1, 2, '{"a":1}', '{"id":"arith/add","distribution":"castform-env-arith","version":"0.1.0","content_sha256":"aa","args":{"operands":2}}');
INSERT INTO runs (run_id, kind, name, status, created, updated, config, environment) VALUES ('old2', 'eval', 'n', 'finished', 1, 2, '{"a":1}', '{"id":"arith/add","distribution":"castform-env-arith","version":"0.1.0","content_sha256":"aa","args":{"operands":2}}');
INSERT INTO runs (run_id, kind, name, status, created, updated, config, environment) VALUES ('bare', 'eval', 'n', 'finished', 1, 2, '{"a":1}', '{}');
INSERT INTO rollouts (run_id, rollout_id, mode, step, group_id, example_id, sample, split, score, rewards, termination_reason, transcript, seed, seconds, turns, call_ids) VALUES ('old1', 'g-0', 'eval', 0, 'g', 'e', 0, 'eval', 0.5, '{"right":0.5}', 'finished', '[]', '7', 1.5, 0, '[]');
INSERT INTO rollouts (run_id, rollout_id, mode, step, group_id, example_id, sample, split, score, rewards, termination_reason, transcript, seed, seconds, turns, call_ids) VALUES ('old1', 'g-1', 'eval', 0, 'g', 'e', 1, 'eval', 0.5, '{"right":0.5}', 'finished', '[]', '7', 1.5, 0, '[]');
INSERT INTO rollouts (run_id, rollout_id, mode, step, group_id, example_id, sample, split, score, rewards, termination_reason, transcript, seed, seconds, turns, call_ids) VALUES ('old2', 'g-0', 'eval', 0, 'g', 'e', 0, 'eval', 0.5, '{"right":0.5}', 'finished', '[]', '7', 1.5, 0, '[]');
INSERT INTO rollouts (run_id, rollout_id, mode, step, group_id, example_id, sample, split, score, rewards, termination_reason, transcript, seed, seconds, turns, call_ids) VALUES ('bare', 'g-0', 'eval', 0, 'g', 'e', 0, 'eval', 0.5, '{"right":0.5}', 'finished', '[]', '7', 1.5, 0, '[]');
INSERT INTO scalars VALUES ('old1', 'eval', 'score', 0, 0.5);
