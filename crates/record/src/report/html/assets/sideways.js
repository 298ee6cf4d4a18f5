"use strict";
// A hint at each edge behind which something that scrolls sideways goes on, of both pages. It does not know what scrolls: what
// is given is put into a frame, which is returned and carries the hints, so that they stay where they are.
var sideways = (() => {
  const SLACK = 2; // px: parts of a pixel are no more to see

  return (scroller) => {
    const frame = document.createElement("div");
    frame.className = "sideways";
    if (scroller.parentNode) scroller.replaceWith(frame);
    frame.append(scroller);
    const look = () => {
      const left = scroller.scrollLeft, room = scroller.scrollWidth - scroller.clientWidth;
      frame.classList.toggle("before", left > SLACK);
      frame.classList.toggle("after", room - left > SLACK);
    };
    scroller.addEventListener("scroll", look, { passive: true });
    // Its own width changes with the window, that of its content with what is filled in.
    const observer = new ResizeObserver(look);
    observer.observe(scroller);
    for (const part of scroller.children) observer.observe(part);
    return frame;
  };
})();
