"use strict";
(async () => {
  const root = document.querySelector(".partitions");
  if (!root || !("DecompressionStream" in self)) return;
  const PAGE = 25, total = Number(root.dataset.total);
  const packed = Uint8Array.from(atob(root.querySelector("script").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());
  const column = (name) => (data[name] ? data[name].split(" ") : []);
  const number = column("partition"), before = column("before"), after = column("after");
  const leads = column("leads"), wave = column("wave"), size = data.size ? data.size.split(" ") : null;
  const topicOf = new Uint32Array(number.length);
  for (let t = 0, row = 0; t < data.topics.length; t++) {
    topicOf.fill(t, row, (row += data.counts[t]));
  }
  const ids = (row) => {
    const old = before[row] ? before[row].split(",") : [];
    const now = after[row].startsWith("+") ? [...old, ...after[row].slice(1).split(",").filter(Boolean)] : after[row].split(",");
    return [old, now];
  };
  const bytes = (text) => {
    if (text === "") return "unknown";
    let value = Number(text);
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (value < 1000) return (unit === "B" ? value.toFixed(0) : value.toFixed(1)) + " " + unit;
      value /= 1000;
    }
    return value.toFixed(1) + " TB";
  };
  const form = root.querySelector("form"), body = root.querySelector("tbody"), found = root.querySelector(".found");
  const pages = root.querySelector(".pages"), buttons = [...pages.querySelectorAll("button")];
  const show = (n) => n.toLocaleString("en");
  let rows = [], page = 0;

  const draw = () => {
    const from = page * PAGE, to = Math.min(from + PAGE, rows.length);
    body.replaceChildren(...rows.slice(from, to).map((row) => {
      const [old, now] = ids(row), line = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row";
      head.textContent = data.topics[topicOf[row]];
      line.append(head);
      const cell = (name, text, numeric) => {
        const made = document.createElement("td");
        made.dataset.is = name;
        made.textContent = text;
        if (numeric) made.className = "n";
        line.append(made);
      };
      cell("Partition", show(Number(number[row])), true);
      cell("Replicas before", old.join(", ") || "none");
      cell("Replicas after", now.join(", ") || "none");
      cell("Preferred leader", leads[row] === "" ? "unknown" : now[Number(leads[row])], true);
      cell("Wave", show(Number(wave[row])), true);
      if (size) cell("Size", bytes(size[row]), true);
      return line;
    }));
    const which = rows.length === 0 ? "No partition matches."
      : rows.length <= PAGE ? show(rows.length) + (rows.length === 1 ? " partition." : " partitions.")
      : show(from + 1) + " to " + show(to) + " of " + show(rows.length) + " partitions.";
    found.textContent = number.length < total ? which + " Searched: " + show(number.length) + " of " + show(total) + "." : which;
    pages.hidden = rows.length <= PAGE;
    buttons[0].disabled = page === 0;
    buttons[1].disabled = to >= rows.length;
  };
  const search = () => {
    const part = form.topic.value.trim().toLowerCase(), broker = form.broker.value.trim();
    const fits = data.topics.map((topic) => topic.toLowerCase().includes(part));
    rows = [];
    for (let row = 0; row < number.length; row++) {
      if (!fits[topicOf[row]]) continue;
      if (broker === "" || ids(row).some((side) => side.includes(broker))) rows.push(row);
    }
    page = 0;
    draw();
  };
  let due = 0;
  form.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(search, 150);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  buttons.forEach((button) => button.addEventListener("click", () => {
    page += Number(button.dataset.to);
    draw();
  }));
  form.hidden = false;
  search();
  root.dataset.ready = "yes";
})();
