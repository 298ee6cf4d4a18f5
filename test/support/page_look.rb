# frozen_string_literal: true

# How a page looks, in a real browser: at two widths, light and dark. It does not know what is on it.
module PageLook
  # How light the ground of the page is.
  SHINE = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
  # Parts of the page that begin or end outside of the window and are in nothing that scrolls or cuts.
  STICKING_OUT = <<~'JS'
    [...document.querySelectorAll("body *")].filter((it) => {
      const box = it.getBoundingClientRect();
      if (!box.width || !box.height || (box.left >= -1 && box.right <= innerWidth + 1)) return false;
      for (let at = it; at; at = at.parentElement) {
        if (getComputedStyle(at).overflowX !== "visible" || at.tagName === "svg") return false;
      }
      return true;
    }).map((it) => it.outerHTML.slice(0, 80))
  JS
  # Words whose colour is hardly another one than that of their ground: contrast below 3 by WCAG.
  UNREADABLE = <<~'JS'
    [...document.querySelectorAll("h1, h2, p, dt, dd, th, td, a, li, summary, pre, .virtual-row > span")].filter((it) => {
      const light = (text) => {
        const [r, g, b] = text.match(/[\d.]+/g).map((part) => {
          const value = Number(part) / 255;
          return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      if (!it.textContent.trim() || !it.getClientRects().length) return false;
      let ground = it;
      while (ground.parentElement && /^rgba\(.*, 0\)$/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
      const [one, other] = [light(getComputedStyle(it).color), light(getComputedStyle(ground).backgroundColor)].sort((a, b) => b - a);
      return (one + 0.05) / (other + 0.05) < 3;
    }).map((it) => it.outerHTML.slice(0, 80))
  JS
  # Boxes with output of which the last line is out of sight.
  ENDS_HIDDEN = <<~'JS'
    [...document.querySelectorAll("pre")].filter((it) => {
      if (!it.getClientRects().length) return false;
      const range = document.createRange(), text = it.firstChild;
      range.setStart(text, text.data.trimEnd().length - 1);
      range.setEnd(text, text.data.trimEnd().length);
      const [end, box] = [range.getBoundingClientRect(), it.getBoundingClientRect()];
      return end.bottom > box.bottom + 1 || end.top < box.top - 1;
    }).map((it) => it.textContent.slice(-80))
  JS
  # Boxes that open whose triangle has a line for itself, since their text begins below it.
  TRIANGLES_ALONE = <<~'JS'
    [...document.querySelectorAll("summary")].filter((it) => {
      if (!it.getClientRects().length) return false;
      const range = document.createRange(), text = document.createTreeWalker(it, NodeFilter.SHOW_TEXT).nextNode();
      range.setStart(text, 0);
      range.setEnd(text, 1);
      return range.getBoundingClientRect().top > it.getBoundingClientRect().top + 20;
    }).map((it) => it.textContent.slice(0, 80))
  JS
  # How many boxes with output are not seen whole.
  CUT = "[...document.querySelectorAll('pre')].filter((it) => it.scrollHeight > it.clientHeight + 1).length"

  # Texts of pictures that are wider than the boxes in which they stand.
  LEAVING_BOXES = <<~'JS'
    [...document.querySelectorAll(".graph g")].filter((it) => {
      const [box, ...texts] = [it.querySelector("rect"), ...it.querySelectorAll("text")].map((part) => part.getBBox());
      return texts.some((text) => text.x < box.x || text.x + text.width > box.x + box.width);
    }).map((it) => it.textContent)
  JS

  # Charts of the whole run of which a part is out of sight, and their texts that touch one another.
  CUT_CHARTS = <<~'JS'
    [...document.querySelectorAll("figure.whole > svg")].flatMap((it) => {
      const box = it.getBoundingClientRect(), texts = [...it.querySelectorAll(".tick")];
      const found = box.width && (box.left < -1 || box.right > innerWidth + 1) ? [it.getAttribute("aria-label")] : [];
      return found.concat(texts.filter((text, i) => i > 0 &&
        text.getBoundingClientRect().left < texts[i - 1].getBoundingClientRect().right).map((text) => text.textContent));
    })
  JS

  private

  # In each of both widths, light and dark: nothing is wider than the window, nothing sticks out of it that cannot be
  # scrolled to, and words can be read on their ground. RAKUDA_PICTURES names a folder for pictures of them.
  def check_widths(browser, what = "live")
    # What is out of sight is laid out, too.
    browser.evaluate("document.querySelectorAll('section').forEach((it) => { it.style.contentVisibility = 'visible'; })")
    [[1280, "light"], [1280, "dark"], [400, "light"], [400, "dark"]].each do |width, colours|
      browser.resize(width, 1000)
      browser.prefer(colours)
      browser.wait_for("innerWidth === #{width} && document.documentElement.scrollWidth <= #{width}")
      browser.wait_for("#{SHINE}[0] #{colours == "light" ? ">" : "<"} 128")
      browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
      look = "#{what}, #{width} pixels, #{colours}"
      assert_empty browser.evaluate(STICKING_OUT), look
      assert_empty browser.evaluate(UNREADABLE), look
      assert_empty browser.evaluate(LEAVING_BOXES), look
      assert_empty browser.evaluate(CUT_CHARTS), look
      assert_empty browser.evaluate(TRIANGLES_ALONE), look
      next unless (folder = ENV["RAKUDA_PICTURES"])

      browser.picture(File.join(folder, "#{what}-#{width}-#{colours}.png"), whole: true)
    end
    browser.resize(1280, 1000)
  end

  # There is more output than has room, and its end is what is seen.
  def check_ends(browser)
    assert_operator browser.evaluate(CUT), :>, 0, "the output has room"
    assert_empty browser.evaluate(ENDS_HIDDEN)
  end
end
