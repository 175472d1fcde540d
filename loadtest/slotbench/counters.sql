-- A counter for each window, locked by whoever puts an event into it, and a row
-- for each event. Instants are microseconds since 1970.
CREATE TABLE counter_window (
    start  bigint  NOT NULL PRIMARY KEY,
    taken  integer NOT NULL,
    status text    NOT NULL
);
CREATE INDEX counter_window_status ON counter_window (status, start);

CREATE TABLE counter_slot (
    slot      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event     text        NOT NULL UNIQUE,
    requested bigint      NOT NULL,
    win       bigint      NOT NULL,
    scheduled bigint      NOT NULL,
    created   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX counter_slot_win ON counter_slot (win);
CREATE INDEX counter_slot_scheduled ON counter_slot (scheduled);

-- counter_try puts an event into one window, at random from an offset on, if
-- fewer than cap are in it. It returns NULL if there are not, or if somebody else
-- holds the window: nobody waits for a counter that is there. Who makes one has
-- those wait who would make it, too.
CREATE FUNCTION counter_try(p_event text, p_requested bigint, p_start bigint, p_from bigint, p_cap integer, p_max integer, p_size bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n  integer;
    at bigint := p_start + p_from + floor(random() * (p_size - p_from))::bigint;
BEGIN
    BEGIN
        SELECT taken INTO n FROM counter_window WHERE start = p_start FOR UPDATE NOWAIT;
        IF NOT FOUND THEN
            INSERT INTO counter_window VALUES (p_start, 0, 'OPEN');
            n := 0;
        END IF;
    EXCEPTION WHEN lock_not_available OR unique_violation THEN
        RETURN NULL;
    END;
    IF n >= p_cap THEN
        RETURN NULL;
    END IF;
    INSERT INTO counter_slot (event, requested, win, scheduled) VALUES (p_event, p_requested, p_start, at)
        ON CONFLICT (event) DO NOTHING;
    IF NOT FOUND THEN -- somebody else has booked it meanwhile
        SELECT scheduled INTO at FROM counter_slot WHERE event = p_event;
        RETURN at;
    END IF;
    UPDATE counter_window SET taken = n + 1, status = CASE WHEN n + 1 >= p_max THEN 'CLOSED' ELSE 'OPEN' END WHERE start = p_start;
    RETURN at;
END $$;

-- counter_book returns when an event is to happen, NULL if there is no room in
-- the windows that it looks at: the one asked for, of which the part that is over
-- does not count; then those from the first after it that is open, or else after
-- the last there is, and so many more.
CREATE FUNCTION counter_book(p_event text, p_requested bigint, p_max integer, p_size bigint, p_headroom integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    first   bigint := p_requested - p_requested % p_size;
    elapsed bigint := p_requested - first;
    skip    bigint;
    at      bigint;
BEGIN
    SELECT scheduled INTO at FROM counter_slot WHERE event = p_event;
    IF FOUND THEN
        RETURN at;
    END IF;
    at := counter_try(p_event, p_requested, first, elapsed, (p_max * (p_size - elapsed) / p_size)::integer, p_max, p_size);
    IF at IS NOT NULL THEN
        RETURN at;
    END IF;
    SELECT min(start) INTO skip FROM counter_window WHERE status = 'OPEN' AND start > first;
    IF skip IS NULL THEN
        SELECT greatest(first, max(start)) + p_size INTO skip FROM counter_window;
    END IF;
    FOR i IN 0..p_headroom LOOP
        at := counter_try(p_event, p_requested, skip + i * p_size, 0, p_max, p_max, p_size);
        IF at IS NOT NULL THEN
            RETURN at;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
