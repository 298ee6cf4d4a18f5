#: run X=1 Y=a=b
task(:default) { p ENV["X"], ENV["Y"]; sh "echo $X $Y" }
