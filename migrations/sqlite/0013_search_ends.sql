-- Why the searches of a run ended, without reading its log.
CREATE INDEX event_search_ends ON event (run_id, seq) WHERE kind = 'search_ended';
