static void add_cases(Suite *suite) { (void)suite; }
