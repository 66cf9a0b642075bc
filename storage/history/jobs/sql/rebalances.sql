SELECT * FROM paired WHERE began_ms >= $since_ms AND began_ms < $until_ms
