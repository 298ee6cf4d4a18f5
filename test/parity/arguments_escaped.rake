#: run show[a\,b,c]
task(:show, [:x, :y]) { |t, a| p a.to_a }
