int PART() { return 77; }
