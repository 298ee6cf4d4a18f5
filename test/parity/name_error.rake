#: run
task(:default) { undefined_thing }
