# frozen_string_literal: true

require "fileutils"
require "json"
require "open3"
require "tmpdir"
require_relative "engines"

# Runs over hosts that are all on this machine: an ssh of the test's own starts each "host" here, with a folder for
# temporary files of its own; commands see which it is in NEAR_HOST. With `--filesystem local` the hosts share no folder
# of the run, and what is brought where is seen. It shows nothing of networks.
module NearHosts
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)
  SSH = <<~'SH'
    #!/bin/sh
    while test "$1" != --; do shift; done
    host=$2
    shift 2
    case $host in nosuch*) echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255 ;; esac
    export NEAR_HOST="$host" TMPDIR="$NEAR_HOSTS/$host" XDG_CACHE_HOME="$NEAR_HOSTS/cache"
    mkdir -p "$TMPDIR"
    exec sh -c "$*"
  SH

  # What a run has left.
  Result = Struct.new(:out, :err, :status)

  # A folder of the run with hosts beside it.
  class Run
    attr_reader :base

    # @param shared [Boolean] the hosts have the folder of the run, instead of folders of their own
    # @param heartbeat [Integer] seconds of silence after which a host is lost: with many a busy machine loses none
    def initialize(base, shared: false, heartbeat: 60)
      @base = base
      @words = shared ? %w[-q] : %w[--filesystem local -q]
      @words << "HEARTBEAT=#{heartbeat}"
      @folder = File.join(base, "home")
      FileUtils.mkdir_p([@folder, File.join(base, "bin")])
      File.write(File.join(base, "bin/ssh"), SSH, perm: 0o755)
      write("hosts", "host1 1\nhost2 1\n")
    end

    def write(name, content)
      path = File.join(@folder, name)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, content)
    end

    def read(name) = File.read(File.join(@folder, name))

    # An engine in a folder of its own; the hosts say that they are of another machine type.
    def engine(machine)
      folder = File.join(@base, "engine")
      FileUtils.mkdir_p(folder)
      real = File.realpath(Engines::REAL.fetch("RAKUDA_ENGINE"))
      begin
        File.link(real, File.join(folder, "rakudad"))
      rescue Errno::EXDEV, Errno::EPERM
        FileUtils.cp(real, folder)
      end
      script = "test \"$1\" = -m && exec echo #{machine}\nexec /usr/bin/uname \"$@\""
      File.write(File.join(@base, "bin/uname"), "#!/bin/sh\n#{script}\n", perm: 0o755)
      File.join(folder, "rakudad")
    end

    # Here and on all hosts.
    def remove(name) = FileUtils.rm(Dir[File.join(@folder, name), File.join(@base, "*/rakuda-*/files/*", name)])

    def rakuda(rakefile, *words, environment: {})
      write("Rakefile", rakefile)
      start(RAKUDA, "-F", "hosts", *@words, *words, environment: environment)
    end

    # What rakudactl prints about the runs.
    def ctl(*words)
      told = start(RAKUDACTL, *words)
      raise Minitest::Assertion, told.err unless told.status == 0

      told.out
    end

    # Begins a run, without waiting for its end.
    # @param output [String] a file for what it prints
    # @return [Integer] its process
    def begin_rakuda(rakefile, *words, output:)
      write("Rakefile", rakefile)
      Process.spawn(environment, RAKUDA, *@words, *words, chdir: @folder, %i[out err] => output)
    end

    def path(name) = File.join(@folder, name)

    # A command that starts a run.
    def rakudactl(*words) = start(RAKUDACTL, *words, "--", "-F", "hosts", "--filesystem", "local")

    def make_executable(name) = FileUtils.chmod(0o755, File.join(@folder, name))

    # What commands have written beside the folders of all hosts.
    def said = Dir[File.join(@base, "said.*")].sort.map { |path| File.read(path) }

    def forget = FileUtils.rm(Dir[File.join(@base, "said.*")])

    # A host's folder of the run; nil before the first.
    def folder(host) = Dir[File.join(@base, host, "rakuda-*/files/*")].first

    # Files of a host's folder of the run, or of the run's own at home.
    def files(host = nil)
      folder = host ? folder(host) : @folder
      return [] unless folder

      Dir.glob("**/*", base: folder).select { |name| File.file?(File.join(folder, name)) }.sort - %w[Rakefile hosts]
    end

    # Events of the last run.
    def events
      journal = Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].max
      # The last line may be half there.
      File.readlines(journal).grep(/\n\z/).map { |line| JSON.parse(line) }
    end

    private

    def environment
      Engines::REAL.merge("PATH" => "#{@base}/bin:#{ENV.fetch("PATH")}", "NEAR_HOSTS" => @base)
    end

    def start(*words, environment: {})
      environment = self.environment.merge(environment)
      out, err, status = Open3.capture3(environment, "timeout", "-s", "KILL", "300", *words, chdir: @folder)
      Result.new(out, err, status.exitstatus)
    end
  end

  # @yield [Run]
  def near_hosts(**options)
    Dir.mktmpdir("near") { |base| yield Run.new(base, **options) }
  end
end
