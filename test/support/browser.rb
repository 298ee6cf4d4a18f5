# frozen_string_literal: true

require "fileutils"
require "io/nonblock"
require "json"
require "tmpdir"

# Debian's Chromium without a window, told what to do over a pair of pipes (the DevTools protocol). It notes everything
# that a page complains of and asks the network for. It does not know what pages it is for.
class Browser
  COMMAND = "chromium"
  FLAGS = %w[--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
             --disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe].freeze

  # Far longer than anything takes that a page does.
  WAIT_S_MAX = 120

  # What pages said on the console or died of, and the addresses that they asked for, but for data.
  attr_reader :complaints, :requests

  # @yieldparam browser [Browser] it is ended with the block
  def self.open(width: 1280, height: 1000)
    profile = Dir.mktmpdir("rakuda-browser")
    browser = new(profile, width, height)
    yield browser
  ensure
    browser&.close
    FileUtils.rm_rf(profile)
  end

  def self.there?
    ENV.fetch("PATH").split(":").any? { |folder| File.executable?(File.join(folder, COMMAND)) }
  end

  def initialize(profile, width, height)
    @complaints = []
    @requests = []
    @number = 0
    commands, @to = IO.pipe
    @from, answers = IO.pipe
    @from.binmode
    # Ruby's pipes do not block, and Chromium takes EAGAIN for the end.
    [commands, answers].each { |pipe| pipe.nonblock = false }
    @pid = Process.spawn(COMMAND, *FLAGS, "--user-data-dir=#{profile}", "--window-size=#{width},#{height}",
                         3 => commands, 4 => answers, %i[out err] => File::NULL, :pgroup => true)
    [commands, answers].each(&:close)
    target = call("Target.createTarget", url: "about:blank")["targetId"]
    @session = call("Target.attachToTarget", targetId: target, flatten: true)["sessionId"]
    resize(width, height)
    %w[Runtime Log Network Page].each { |domain| call("#{domain}.enable") }
  end

  # Shows a file and waits until it is loaded.
  def show(path, fragment = "")
    @loaded = false
    call("Page.navigate", url: "file://#{path}#{fragment}")
    handle(read) until @loaded
  end

  # Shows what is at an address and waits until it is loaded.
  def visit(address)
    @loaded = false
    call("Page.navigate", url: address)
    handle(read) until @loaded
  end

  # Waits until a JavaScript expression is true; the page may be another one meanwhile.
  def wait_for(condition)
    look = "new Promise((done) => { const until = Date.now() + #{1000 * WAIT_S_MAX}, look = () => (#{condition}) ? done(true) " \
           ": Date.now() > until ? done(false) : setTimeout(look, 50); look(); })"
    return if evaluate(look)

    raise "#{condition} did not come true within #{WAIT_S_MAX} s; the page complains: #{@complaints.inspect}"
  rescue RuntimeError => e
    raise unless e.message.match?(/context was destroyed|Cannot find context|navigated/)

    retry
  end

  # @return what a JavaScript expression is
  def evaluate(expression)
    answer = call("Runtime.evaluate", expression: expression, returnByValue: true, awaitPromise: true)
    raise answer["exceptionDetails"].to_s if answer["exceptionDetails"]

    answer.dig("result", "value")
  end

  # The colours that pages are to prefer: "light" or "dark".
  def prefer(colours)
    call("Emulation.setEmulatedMedia", features: [{ name: "prefers-color-scheme", value: colours }])
  end

  # Makes the window so large, in pixels.
  def resize(width, height)
    call("Emulation.setDeviceMetricsOverride", width: width, height: height, deviceScaleFactor: 1, mobile: false)
  end

  # Moves the pointer; pixels from the upper left corner.
  def point(left, top)
    call("Input.dispatchMouseEvent", type: "mouseMoved", x: left, y: top)
  end

  # The keys that tests press, by name, with their numbers.
  KEYS = { "Tab" => 9, "Enter" => 13, "Escape" => 27, "End" => 35, "Home" => 36, "ArrowUp" => 38, "ArrowDown" => 40 }.freeze

  # Presses keys one after the other; what has the focus gets them.
  def press(*names)
    names.product(%w[keyDown keyUp]) do |name, type|
      call("Input.dispatchKeyEvent", type: type, key: name, code: name, windowsVirtualKeyCode: KEYS.fetch(name))
    end
  end

  # A picture of what is shown.
  # @param whole [Boolean] of the whole page, not of what is seen of it
  def picture(path, whole: false)
    File.binwrite(path, call("Page.captureScreenshot", format: "png", captureBeyondViewport: whole)["data"].unpack1("m"))
  end

  # Lets it end in its own way, so that nothing of it writes into its profile any more; kills what is left.
  def close
    @session = nil
    begin
      call("Browser.close")
    rescue IOError, SystemCallError, RuntimeError, JSON::ParserError
      nil # it is gone already, or goes in the middle of what it says
    end
    Process.wait(@pid)
    [@to, @from].each(&:close)
    Process.kill(:KILL, -@pid)
  rescue Errno::ESRCH
    nil
  end

  # Does one command of the protocol, and returns its result.
  def call(method, **params)
    @number += 1
    message = { id: @number, method: method, params: params }
    message[:sessionId] = @session if @session
    @to.write("#{JSON.generate(message)}\0")
    @to.flush
    loop do
      answer = read
      handle(answer)
      next unless answer["id"] == @number
      raise "#{method}: #{answer["error"]}" if answer["error"]

      return answer["result"]
    end
  end

  private

  def read
    message = @from.gets("\0")
    raise "#{COMMAND} has ended" unless message

    JSON.parse(message.chomp("\0"))
  end

  def handle(message)
    params = message["params"]
    case message["method"]
    when "Page.loadEventFired" then @loaded = true
    when "Runtime.exceptionThrown" then @complaints << params.dig("exceptionDetails", "exception", "description")
    when "Runtime.consoleAPICalled" then @complaints << params["args"].to_s
    when "Log.entryAdded" then @complaints << params.dig("entry", "text")
    when "Network.requestWillBeSent"
      url = params.dig("request", "url")
      @requests << url unless url.start_with?("data:")
    end
  end
end
