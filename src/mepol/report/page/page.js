// The page as a whole: its sections, the switch and the legend, and news of runs that go on.

const find = (id) => document.getElementById(id);
const charts = [], coverages = new Map(), shown = {};

// Replace the content of a section, but only where what it shows has changed: nobody loses their place on the page.
function section(id, content, make) {
  const text = JSON.stringify(content);
  if (shown[id] === text) return;
  shown[id] = text;
  find(id).replaceChildren(...(content ? make() : []));
}

const titled = (title, ...content) => [el("h2", {}, title), ...content];
const having = (name) => runs().map((run, index) => [run, index]).filter(([run]) => run[name] && run[name].length !== 0);

function legend() {
  if (runs().length < 2) return;
  find("legend").replaceChildren(...runs().map((run, index) => el("button", {
    type: "button", class: colour(index), title: run.path, "aria-pressed": String(!state.hidden.has(index)),
    onclick: (event) => {
      if (!state.hidden.delete(index)) state.hidden.add(index);
      event.currentTarget.setAttribute("aria-pressed", String(!state.hidden.has(index)));
      charts.forEach((chart) => chart.draw());
    },
  }, dot(index), el("span", {}, run.title))));
}

function against() {
  const turns = [...new Set(Object.values(state.data.phases).map((phase) => phase.turns))].join(" / ");
  const choice = (value, text) => el("label", {}, el("input", { type: "radio", name: "against", value, checked: value === state.against,
    onchange: () => { state.against = value; charts.forEach((chart) => { chart.leave(); chart.draw(); }); } }), el("span", {}, text));
  find("against").append(choice("turn", turns), choice("samples", "samples"));
}

function progress(run) {
  const turns = run.columns[run.turn] || [], at = turns.length ? turns.at(-1) : 0;
  const share = run.finished ? 1 : run.length ? at / run.length : 0;
  const words = run.finished ? `finished, ${run.turn} ${number(at)}` : `${run.turn} ${number(at)}${run.length ? ` of ${number(run.length)}` : ""}`;
  return { share, words, at };
}

function tile(run, measure) {
  const [first, best, last] = run.policies;
  const value = last[measure.column];
  if (value === null || value === undefined) return null;
  const from = first[measure.column], top = best[measure.column];
  const words = [from === null || first.turn === last.turn ? null : `${first.which} ${number(from)}`,
    top === null || best.turn === last.turn ? null : `best ${number(top)} (${run.turn} ${number(best.turn)})`].filter(Boolean).join(" · ");
  return el("div", { class: "tile", "data-measure": measure.column }, el("dt", {}, measure.label),
    el("dd", { class: "big" }, number(value), el("small", {}, measure.unit ? ` ${measure.unit}` : "")), el("dd", {}, el("small", {}, words || "last")));
}

function summary_card(run, index) {
  const { share, words } = progress(run), track = el("i", {});
  track.style.width = `${(100 * share).toFixed(1)}%`;
  const samples = (run.columns.samples || []).at(-1) || 0;
  const seconds = Object.keys(run.columns).filter((name) => name.endsWith("_s")).flatMap((name) => run.columns[name]).reduce((a, b) => a + (b || 0), 0);
  const whole = run.rows === (run.columns[run.turn] || []).length ? `${number(samples)} samples, ${number(Math.round(seconds))} s` : `${number(samples)} samples`;
  const tiles = run.policies.length ? state.data.phases[run.phase].measures.map((measure) => tile(run, measure)) : [];
  return el("article", { class: `card ${colour(index)}`, "data-run": run.title },
    el("div", { class: "head" }, dot(index), el("h3", {}, run.title), el("span", { class: `pill ${run.finished ? "done" : "busy"}` }, words)),
    el("p", { class: "where" }, `${state.data.phases[run.phase].heading} of ${run.where} by ${run.who}, seed ${run.seed}; ${whole}`),
    el("div", { class: "track", role: "progressbar", "aria-label": `Progress of ${run.title}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) }, track),
    run.policies.length ? el("dl", { class: "tiles" }, tiles) : el("p", { class: "soft" }, "Nothing is measured yet."),
    ...run.changes.map((c) => el("p", { class: "note" }, `${c.setting} is ${c.after} from ${run.turn} ${c.turn} on, ${c.before} before: numbers on either side are not on one scale.`)));
}

function build_charts() {
  for (const [id, title] of [["curves", "Curves"], ["health", "Health"]]) {
    find(id).append(el("h2", {}, title));
    for (const [name, phase] of Object.entries(state.data.phases)) {
      const own = phase.charts.filter((chart) => chart.section === id).map((chart) => new Chart(name, chart));
      charts.push(...own);
      if (Object.keys(state.data.phases).length > 1) find(id).append(el("h3", { class: "phase" }, phase.heading));
      find(id).append(el("div", { class: "cards" }, own.map((chart) => chart.element)));
    }
  }
}

function coverage() {
  for (const [run, index] of having("maps")) {
    const known = coverages.get(index);
    if (known && JSON.stringify(known.run.maps.grid) === JSON.stringify(run.maps.grid)) {
      if (JSON.stringify(known.run.maps) !== JSON.stringify(run.maps) || known.run.finished !== run.finished) known.update(run);
      continue;
    }
    if (known) known.stop();
    coverages.set(index, new Coverage(run, index));
  }
  const cards = [...coverages].sort(([a], [b]) => a - b).map(([, card]) => card.element);
  if (cards.length && cards.some((card) => !card.isConnected)) find("coverage").replaceChildren(...titled("Coverage over training", el("div", { class: "stack" }, cards)));
}

function film(run, index, { name, kind, bytes, uri }) {
  const label = `${name} of ${run.title}`;
  const shown = !uri ? el("p", { class: "soft" }, `${(bytes / 1e6).toFixed(1)} MB, too large for this page: it is in ${run.path}/figures`)
    : kind === "image/gif" ? el("img", { class: "film", src: uri, alt: label })
      : el("video", { src: uri, controls: true, muted: true, loop: true, playsinline: true, preload: "metadata", "aria-label": label });
  return el("article", { class: "card" }, el("div", { class: "head" }, dot(index), el("h3", {}, `${run.title}: ${name}`)), shown);
}

function settings_table(tables) {
  const names = new Map(), several = runs().length > 1;
  tables.forEach((table) => table.forEach((s) => names.set(s.name, s)));
  const value = (table, name) => (table.find((s) => s.name === name) || { value: "–" }).value;
  const body = el("tbody", {});
  let group = null;
  for (const [name, setting] of names) {
    if (setting.group !== group) {
      group = setting.group;
      body.append(el("tr", { class: "group" }, el("th", { scope: "colgroup", colspan: tables.length + 1 }, group)));
    }
    const values = tables.map((table) => value(table, name)), differs = new Set(values).size > 1;
    body.append(el("tr", { class: differs ? "differs" : "", "data-words": `${name} ${setting.text}`.toLowerCase() },
      el("th", { scope: "row" }, name, setting.text ? el("small", {}, setting.text) : null), values.map((text) => el("td", {}, text))));
  }
  const search = el("input", { type: "search", placeholder: "Find a setting", "aria-label": "Find a setting", oninput: () => filter() });
  const only = el("input", { type: "checkbox", onchange: () => filter() });
  const filter = () => {
    const words = search.value.toLowerCase(), narrowed = words || only.checked;
    for (const row of body.rows) {
      row.hidden = row.className === "group" ? narrowed : !row.dataset.words.includes(words) || (only.checked && row.className !== "differs");
    }
  };
  return [el("div", { class: "tools" }, search, several ? el("label", {}, only, " only what differs") : null),
    el("div", { class: "wide" }, el("table", {}, heading("setting", runs().map((run) => run.title)), body))];
}

const heading = (first, others) => el("thead", {}, el("tr", {}, el("th", { scope: "col" }, first), others.map((text) => el("th", { scope: "col" }, text))));

function versions_table(tables) {
  const names = [...new Set(tables.flatMap(Object.keys))].sort();
  const rows = names.map((name) => el("tr", {}, el("th", { scope: "row" }, name), tables.map((table) => el("td", {}, table[name] || "–"))));
  return el("div", { class: "wide" }, el("table", {}, heading("package", [...runs().map((run) => run.title), "this page"]), el("tbody", {}, rows)));
}

function show(data) {
  const first = state.data === null;
  state.data = data;
  if (first) { legend(); against(); build_charts(); }
  section("summary", runs().map(({ columns, maps, films, settings, ...rest }) => [rest, columns.samples]), () => [el("div", { class: "cards" }, runs().map(summary_card))]);
  charts.forEach((chart) => chart.draw());
  coverage();
  const goals = having("goals"), films = having("films");
  section("goals", goals.length ? goals.map(([run]) => run.goals) : null, () => titled("Goal coverage", el("div", { class: "cards" }, goals.map((pair) => goal_card(...pair)))));
  section("films", films.length ? films.map(([run]) => run.films) : null,
    () => titled("Films", el("div", { class: "cards" }, films.flatMap(([run, index]) => run.films.map((one) => film(run, index, one))))));
  const settings = runs().map((run) => run.settings), versions = [...runs().map((run) => run.versions), data.versions];
  section("settings", [settings, versions], () => titled("Settings and versions",
    el("div", { class: "card stack" }, el("details", {}, el("summary", {}, "Every setting"), settings_table(settings)),
      el("details", {}, el("summary", {}, "Versions"), versions_table(versions)))));
}

// A live page asks its server for news; nothing else on this page ever asks for anything.
function follow(pause) {
  let tag = "";
  const contact = find("contact");
  const say = (kind, words) => { contact.hidden = false; contact.className = `pill ${kind}`; contact.textContent = words; };
  const look = async () => {
    try {
      const answer = await fetch("data.json", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        show(await answer.json());
      } else if (answer.status !== 304) throw new Error(await answer.text());
      say("done", runs().every((run) => run.finished) ? "live, finished" : "live");
    } catch (fault) {
      say("lost", "no news: the server has ended");
      contact.title = String(fault.message || fault);
    }
    setTimeout(look, pause);
  };
  say("done", "live");
  setTimeout(look, pause);
}

const data = JSON.parse(find("data").textContent);
show(data);
if (data.live) follow(data.live);
