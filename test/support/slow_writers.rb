# frozen_string_literal: true

# Actions that write a target slowly, each by another kind of process: what tests stop in the middle. None ends by
# itself, however late it is stopped: when all is written it stays.
module SlowWriters
  LINES = 600
  LOOP = "for i in $(seq #{LINES}); do echo part >> out; sleep 0.005; done; sleep 1000".freeze
  # What a command does that has started another process.
  STAYS = "sleep 600"

  # Bodies of an action that writes `out`.
  IN_RUBY = %(#{LINES}.times { File.write("out", "part\\n", mode: "a"); sleep 0.005 }; sleep 1000).freeze
  IN_PERL = "$0 = q(x) x 6000; for (1..#{LINES}) { open F, q(>>out); print F qq(part\\n); close F; " \
            "select undef, undef, undef, .005 } sleep 1000".freeze
  FORKING = "for i in $(seq #{LINES}); do (setsid sh -c 'echo part >> out' &); sleep 0.005; done; sleep 1000".freeze
  ALL = {
    command: "sh #{LOOP.dump}",
    system: "system(#{LOOP.dump}) or raise",
    timeout: "sh %q(timeout 1000 sh -c '#{LOOP}'; true)",
    fork: "Process.wait(fork { #{IN_RUBY} }); raise unless $?.success?",
    daemon: "sh %q(setsid sh -c '#{LOOP}' & #{STAYS})",
    daemon_of_ruby: "Process.wait(spawn(%q(setsid sh -c '#{LOOP}' > /dev/null 2>&1 &), unsetenv_others: true)); #{STAYS}",
    title: "system(\"perl\", \"-e\", %q{#{IN_PERL}}) or raise",
    quick_forker: "system(%q{#{FORKING}}) or raise",
    ruby: IN_RUBY,
    thread: "Thread.new { #{IN_RUBY} }.join"
  }.freeze
  # The same by commands alone, which run on nodes.
  OF_COMMANDS = {
    **ALL.slice(:command, :timeout, :daemon),
    daemon_without_environment: "sh %q((env -i setsid sh -c '#{LOOP}' > /dev/null 2>&1 &); #{STAYS})",
    title: "sh %q(setsid perl -e '#{IN_PERL}' & #{STAYS})",
    quick_forker: "sh %q{#{FORKING}}",
    slow_to_end: "sh %q(trap 'sleep 0.3; exit 1' TERM; #{LOOP})",
    deaf: "sh %q(trap '' TERM; #{LOOP})"
  }.freeze

  # A Rakefile whose `out` is written so, or at once when there is a file `good`.
  # @param writer [String] the body of an action
  def self.rakefile(writer)
    <<~RUBY
      file "out" do
        next sh("for i in $(seq #{LINES}); do echo part; done > out", verbose: false) if File.exist?("good")
        #{writer}
      end
      task default: "out"
    RUBY
  end
end
