# frozen_string_literal: true

# The Ruby half as a gem: `gem build`, `gem install --local`. The engine is looked for beside the library, in libexec/ (where the
# gem has it when it is there as the gem is built), and in PATH.
Gem::Specification.new do |spec|
  root = __dir__
  spec.name = "rakuda"
  spec.version = File.read(File.join(root, "lib/rakuda.rb"))[/^  VERSION = "(.*)"/, 1]
  spec.summary = "Rake's twin that runs a Rakefile's tasks in parallel, on one machine or many hosts"
  spec.description = "Reads a Rakefile as rake does and runs its tasks in parallel. Needs the engine rakudad of the same version."
  spec.authors = ["The Rakuda developers"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.0"
  spec.add_dependency "msgpack", "~> 1.4"
  spec.add_dependency "rake", "~> 13.0"

  engine = "libexec/rakudad"
  own_engine = File.exist?(File.join(root, engine))
  spec.platform = Gem::Platform::CURRENT if own_engine
  folders = "{lib,exe,iobench/schema,iobench/others}"
  spec.files = Dir.glob("#{folders}/**/*", base: root).select { |path| File.file?(File.join(root, path)) } +
               %w[LICENSE gate/rakuda_gate.h libexec/rakuda-tasks libexec/rakuda-bench] + (own_engine ? [engine] : []) +
               # All that README and these pages lead to, as tools/install has it.
               Dir.glob(%w[*.md docs/*.md docs/*/*.md docs/pictures/* docs/reference/*.json {bench,iobench,testbed}/README.md],
                        base: root)
  spec.bindir = "exe"
  spec.executables = %w[rakuda rakudactl]
  spec.metadata["rubygems_mfa_required"] = "true"
end
