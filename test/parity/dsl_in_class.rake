#: run
class Tool
  include Rake::DSL
  def define; task(:default) { sh "echo from a class" }; end
end
Tool.new.define
