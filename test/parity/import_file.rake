#: file deps.rake task(:imported) { puts "imported" }
#: run imported
import "deps.rake"
