#: run
#: run
directory "a/b/c"
file "a/b/c/x" => "a/b/c" do |t|
  touch t.name
end
task default: "a/b/c/x"
