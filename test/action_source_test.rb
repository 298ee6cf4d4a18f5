# frozen_string_literal: true

# What the form of an action's source takes no notice of, and what it does. One test has the forms themselves: they are
# to be the same in each version of Ruby, or all targets would count as made otherwise by the next one.

require "digest"
require "minitest/autorun"
require "rakuda"
require "rakuda/action_source"

class ActionSourceTest < Minitest::Test
  SAME = [
    ["proc { |t| sh 'x' }", "# c\n\n  proc { |t|\n   sh  'x' # y\n\n # z\n}"],
    ["proc do |t| sh 'x' end", "proc do |t|\n sh 'x'\nend"],
    ["lambda do |t| sh 'x' end", "x = 1; lambda do |t|\n sh 'x';\n end"],
    ["->(t) { a t }", "-> (t) {\n a t\n}"],
    ["-> { a }", "-> {\n a; }"],
    ["-> do a end", "-> do\n a end"],
    ["-> t, u do a end", "-> t,u do\n a end"],
    ["proc { a-b }", "proc { a - b }"],
    ["proc { a(1, 2) }", "proc { a( 1,\n 2 ) }"],
    ["proc { a\nb }", "proc { a; b }"],
    ["proc { a # c\n b }", "proc { a\nb }"],
    ["proc { a(1, # c\n 2) }", "proc { a(1, 2) }"],
    ["proc { a.b }", "proc { a\n # c\n .b }"],
    ["proc {\n=begin\nfoo\n=end\n a }", "proc { a }"],
    ["proc { \"a\#{b # c\n}\" }", "proc { \"a\#{b}\" }"],
    ["proc { sh <<X }\nhello \#{t} x\nX\n", "proc {\n sh <<X # c\nhello \#{t} x\nX\n}"],
    ["proc {\n  sh <<~X\n    a\n      b \#{<<~Y} c\n        q\n         r\n      Y\n\n    d\n  X\n}",
     "proc {\n     sh <<~X\n       a\n         b \#{<<~Y} c\n            q\n             r\n          Y\n\n       d\n     X\n}"],
    ["proc { %w[a b c] }", "proc { %w[ a  b\n\n c ] }"],
    ["proc { { a: 1, 'b': 2 } }", "proc { {a:  1,\n 'b': 2\n } }"],
    ["proc { 'é' }", "proc {  'é'  }"]
  ].freeze

  OTHERS = [
    ["proc { |t| sh 'x' }", "proc { |t| sh 'x ' }"],
    ["proc { 'a  b' }", "proc { 'a b' }"],
    ["proc { a [1] }", "proc { a[1] }"],
    ["proc { a (1).b }", "proc { a(1).b }"],
    ["proc { a -b }", "proc { a - b }"],
    ["proc { a *b }", "proc { a * b }"],
    ["proc { a ::B }", "proc { a::B }"],
    ["proc { a /b/ }", "proc { a / b / 1 }"],
    ["proc { a\nb }", "proc { a b }"],
    ["proc { %w[a b] }", "proc { %w[ab] }"],
    ["proc { sh <<X }\n# c\nX\n", "proc { sh <<X }\n# d\nX\n"],
    ["proc { sh <<X }\nhello \#{t}\nX\n", "proc { sh <<X }\nhello \#{u}\nX\n"],
    ["proc {\n  sh <<~X\n    a\n      b\n  X\n}", "proc {\n  sh <<~X\n    a\n    b\n  X\n}"]
  ].freeze

  # Of Ruby 3.1 and of Ruby 3.3.
  FORMS = {
    "proc { |t| sh 'x', *%w[a  b] if t }" => "t1:{t1:|t1:tt1:|t2:sht1:'s1:xt1:'t1:,t1:*t3:%w[s1:at1: s1:bt1:]t2:ift1:tt1:}",
    "-> (t) do\n a -b # c\nend" => "t1:(t1:tt1:)t2:dot1:at2: -t1:bt3:end",
    "proc { sh <<~X }\n   a\n  b\nX\n" => "t1:{t2:sht4:<<~Xs5: a\nb\nt1:Xt1:}"
  }.freeze

  def test_comments_white_space_and_place_make_no_difference
    SAME.each { |one, other| assert_equal form(one), form(other), "#{one}\n#{other}" }
  end

  def test_all_else_makes_one
    OTHERS.each { |one, other| refute_equal form(one), form(other), "#{one}\n#{other}" }
  end

  def test_forms_are_those_of_all_versions_of_ruby
    FORMS.each { |source, form| assert_equal form, form(source) }
    all = (SAME + OTHERS).flatten.map { |source| form(source) }.join("\n")
    assert_equal "2825896e89f39efab856c1dff475325979ebd8b1e960d84bd51d2f2caf62f144", Digest::SHA256.hexdigest(all)
  end

  def test_where_no_block_ends_there_is_none
    assert_nil Rakuda::ActionSource.of(["proc { 1 }\n"], [1, 5, 1, 9])
    assert_nil Rakuda::ActionSource.of(["abc\n"], [1, 0, 1, 3])
    assert_nil Rakuda::ActionSource.of(["{ end\n"], [1, 0, 1, 1])
    assert_nil Rakuda::ActionSource.of([], [1, 0, 1, 3])
    assert_nil Rakuda::ActionSource.of(["{ a"], [1, 0, 9, 3])
    assert_nil Rakuda::ActionSource.of(["{ '#{"x" * 70_000}' }\n"], [1, 0, 1, 70_006])
  end

  private

  # The first block of a piece of Ruby that makes one.
  def form(source)
    block = TOPLEVEL_BINDING.dup.eval(source)
    location = RubyVM::InstructionSequence.of(block).to_a[4][:code_location]
    Rakuda::ActionSource.of(source.lines, location).tap { |form| refute_nil form, source }
  end
end
