#: file a.o x
#: file b.o x
#: file prog x
#: run clean
#: run clobber
#: run -t clobber
require "rake/clean"
CLEAN.include("*.o")
CLOBBER.include("prog")
