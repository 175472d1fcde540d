-- What callers may do with single APIs, when the example starts: calls in a number of
-- milliseconds, for each caller. # is where an id is.
INSERT INTO stint_rule (name, path, calls, period_ms) VALUES
  ('entity', '/entity/#', 10, 60000),
  ('bundle', '/entity/#/bundle', 30, 60000),
  ('query', '/query', 1000, 60000),
  ('by-md5', '/entity/md5/#', 5, 60000);

-- All of a rule, where a path and a number do not say enough.
INSERT INTO stint_rule (rule) VALUES ('
name: delete-entity
match: {methods: DELETE, path: "/entity/#"}
key: user|ip
status: 503
limits: [{quota: 2, window: 1m}]
');
