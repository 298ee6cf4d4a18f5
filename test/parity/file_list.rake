#: file a.c x
#: file b.c x
#: file b.h x
#: run
list = FileList["*.c"].exclude("b.*")
task :default do
  p list.to_a, list.ext(".o").to_a, FileList["*"].include("nothing").sub(/c$/, "x").to_a.sort, list.pathmap("%n").to_a
  FileList["*.h"].egrep(/x/) { |f, l, t| puts f }
end
