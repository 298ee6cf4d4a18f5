#: run
task(:default) { raise "one\ntwo" }
