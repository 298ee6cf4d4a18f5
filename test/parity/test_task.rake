#: file test/test_x.rb require "minitest/autorun"; class X < Minitest::Test; def test_x; puts "testing"; end; end
#: run -T
require "rake/testtask"
Rake::TestTask.new { |t| t.pattern = "test/test_*.rb" }
