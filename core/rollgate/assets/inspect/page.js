"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FOLD = 600; // context tokens in a row that are shown at once
  const $ = (id) => document.getElementById(id);

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick") node.addEventListener("click", value);
      else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const number = (n) => n.toLocaleString("en-US");
  // 0 is green, -8 nats and below are red.
  const hue = (logprob) => Math.round(140 * (1 - Math.min(1, -logprob / 8)));

  // Runs of equal kind: context, trained, sampled but not trained here.
  function runs(sample) {
    const spans = sample.turns.slice();
    const found = [];
    let at = 0;
    for (const span of spans) {
      if (span.start > at) found.push({ start: at, end: span.start, kind: "ctx" });
      const kind = sample.loss_mask[span.start] === 1 ? "own" : "untrained";
      found.push({ start: span.start, end: span.end, kind, span });
      at = span.end;
    }
    if (at < sample.tokens.length) found.push({ start: at, end: sample.tokens.length, kind: "ctx" });
    return found;
  }

  function bar(sample, longest) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${longest} 10`);
    svg.setAttribute("preserveAspectRatio", "none");
    const fills = { ctx: "#c3c9d1", own: "#35a35f", untrained: "#e0b94f" };
    for (const run of runs(sample)) {
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      rect.setAttribute("x", run.start);
      rect.setAttribute("width", run.end - run.start);
      rect.setAttribute("height", 10);
      rect.setAttribute("fill", fills[run.kind]);
      svg.append(rect);
    }
    return el("span", { class: "bar" }, svg);
  }

  const trained = (sample) => sample.loss_mask.reduce((sum, mask) => sum + mask, 0);
  const reasons = (sample) => (sample.health === "clean" ? [] : sample.health);

  function list() {
    const sessions = new Map();
    data.samples.forEach((sample, index) => {
      const key = sample.session_id;
      if (!sessions.has(key)) sessions.set(key, []);
      sessions.get(key).push({ sample, index });
    });
    for (const [session, branches] of sessions) {
      const longest = Math.max(...branches.map(({ sample }) => sample.tokens.length), 1);
      const first = branches[0].sample;
      const name = [first.task_id, first.task_id ? `attempt ${first.attempt}` : null, session];
      const box = el("div", { class: "session" },
        el("div", { class: "name" }, name.filter(Boolean).join(" · ")));
      for (const { sample, index } of branches) {
        const health = reasons(sample).length
          ? el("span", { class: "bad" }, reasons(sample).join(", ")) : el("span", { class: "good" }, "clean");
        box.append(el("button", { class: "branch", id: `branch-${index}`, onclick: () => show(index) },
          el("span", { class: "row" },
            el("span", {}, `segment ${sample.segment} · ${sample.scene}`), health),
          bar(sample, longest),
          el("span", { class: "small" },
            `${sample.turns.length} turns, ${number(trained(sample))} of ${number(sample.tokens.length)} trained` +
            (sample.reward === null ? "" : `, reward ${sample.reward}`))));
      }
      $("list").append(box);
    }
  }

  function version(sample, at) {
    let found = "";
    for (const [start, name] of sample.weight_versions) if (start <= at) found = name;
    return found;
  }

  function token(sample, at, run) {
    const known = sample.text !== null;
    const text = known ? sample.text[at] : `${sample.tokens[at]} `;
    const mark = known && /^<[|｜/]?[^<>]*>$/.test(text) ? " mark" : "";
    const node = el("span", { class: `tok ${run.kind === "untrained" ? "own untrained" : run.kind}${mark}`, "data-at": at }, text);
    if (run.kind === "own") node.style.setProperty("--hue", hue(sample.logprobs[at]));
    return node;
  }

  function turnLine(sample, run) {
    const span = run.span;
    const parts = [el("b", {}, `turn ${span.turn}`), ` ${span.scene}, ends by ${span.finish_reason}, `,
      `${number(span.end - span.start)} tokens`];
    if (run.kind === "untrained") parts.push(", trained in another segment or not at all");
    if (span.rule) parts.push(`, joined by rule ${span.rule}`);
    if (span.ill_formed) parts.push(el("span", { class: "bad" }, ", ill-formed"));
    const t = span.sampling && span.sampling.temperature;
    if (t !== undefined && t !== null) parts.push(`, temperature ${t}`);
    return el("div", { class: "turn" }, ...parts);
  }

  function tokens(sample) {
    const box = el("div", { class: "tokens" });
    for (const run of runs(sample)) {
      if (run.span) box.append(turnLine(sample, run));
      const length = run.end - run.start;
      const piece = (from, to) => {
        const part = document.createDocumentFragment();
        for (let at = from; at < to; at += 1) part.append(token(sample, at, run));
        return part;
      };
      if (run.kind !== "ctx" || length <= FOLD) { box.append(piece(run.start, run.end)); continue; }
      const half = FOLD / 2;
      const hidden = [run.start + half, run.end - half];
      const button = el("button", { class: "fold" }, `… ${number(hidden[1] - hidden[0])} more context tokens …`);
      button.addEventListener("click", () => button.replaceWith(piece(...hidden)));
      box.append(piece(run.start, hidden[0]), button, piece(hidden[1], run.end));
    }
    return box;
  }

  function messages(sample) {
    const box = el("div", {});
    for (const message of sample.messages) {
      const item = el("div", { class: "message" }, el("div", { class: "role" },
        message.role + (message.tool_call_id ? ` · ${message.tool_call_id}` : "")));
      if (message.reasoning_content) item.append(el("pre", { class: "thought" }, message.reasoning_content));
      if (message.content) item.append(el("pre", {}, message.content));
      for (const call of message.tool_calls || []) {
        item.append(el("pre", {}, `→ ${call.function.name}(${call.function.arguments})`));
      }
      box.append(item);
    }
    return box;
  }

  function table(entries) {
    return el("table", {}, ...entries.map(([name, value]) =>
      el("tr", {}, el("th", {}, name), el("td", {}, value instanceof Node ? value : String(value)))));
  }

  function facts(sample) {
    const counts = Object.entries(sample.counts).filter(([, n]) => n > 0).map(([name, n]) => [name, number(n)]);
    const provenance = Object.entries(sample.provenance).filter(([, value]) => typeof value === "string" && value);
    const parts = Object.entries(sample.reward_parts || {});
    return el("div", {}, el("div", { class: "facts" },
      el("div", {}, el("h3", {}, "Outcome"), table([
        ["outcome", sample.outcome], ["reward", sample.reward === null ? "none" : sample.reward], ...parts,
        ["health", reasons(sample).join(", ") || "clean"], ["scene", sample.scene],
        ["segments", sample.segments], ["siblings", sample.siblings]])),
      el("div", {}, el("h3", {}, "Counts"), counts.length ? table(counts) : el("p", { class: "small" }, "nothing to report")),
      el("div", {}, el("h3", {}, "Weights"), table(sample.weight_versions.map(([start, name]) => [`from ${start}`, name]))),
      el("div", {}, el("h3", {}, "Provenance"), table(provenance))),
      el("h3", {}, "Tools"), el("pre", {}, JSON.stringify(sample.tools, null, 1)));
  }

  function links(sample) {
    if (!sample.links.length) return null;
    const box = el("p", {}, "Links: ");
    sample.links.forEach((link, at) => {
      const target = data.samples.findIndex((other) =>
        other.session_id === link.to.session_id && other.segment === link.to.segment);
      const turn = link.to.turn === undefined || link.to.turn === null ? "" : `, turn ${link.to.turn}`;
      const label = `${link.kind} segment ${link.to.segment}${turn}`;
      box.append(at ? "; " : "", target < 0 ? label : el("a", { href: `#${target}` }, label));
    });
    return box;
  }

  function show(index) {
    const sample = data.samples[index];
    if (!sample) return;
    document.querySelectorAll(".branch").forEach((node) => node.removeAttribute("aria-current"));
    $(`branch-${index}`).setAttribute("aria-current", "true");
    if (location.hash !== `#${index}`) history.replaceState(null, "", `#${index}`);
    const views = { Tokens: tokens, Messages: messages, Facts: facts };
    const body = el("div", { id: "view" });
    const buttons = Object.keys(views).map((name) => el("button", { role: "tab", onclick: () => open(name) }, name));
    function open(name) {
      buttons.forEach((button) => button.setAttribute("aria-selected", String(button.textContent === name)));
      body.replaceChildren(views[name](sample));
    }
    const noText = sample.text === null
      ? el("p", { class: "small" }, "No tokenizer was at hand, so ids are shown (--model DIR).") : null;
    $("sample").replaceChildren(
      el("h2", {}, sample.sample_id),
      el("p", { class: "small" }, `${sample.scene}, ${sample.outcome}, ${number(sample.tokens.length)} tokens, ` +
        `${number(trained(sample))} trained, prompt of ${number(sample.prompt_len)}`),
      ...[links(sample), noText].filter(Boolean),
      el("div", { class: "tabs", role: "tablist" }, ...buttons), body);
    open("Tokens");
  }

  function tips() {
    const tip = $("tip");
    document.addEventListener("mouseover", (event) => {
      const at = event.target.dataset && event.target.dataset.at;
      if (at === undefined) { tip.hidden = true; return; }
      const sample = data.samples[Number(location.hash.slice(1)) || 0];
      const place = Number(at);
      const lines = [`token ${place}, id ${sample.tokens[place]}`, JSON.stringify(event.target.textContent)];
      const span = sample.turns.find((turn) => turn.start <= place && place < turn.end);
      if (span) lines.push(`log-prob ${sample.logprobs[place].toFixed(4)}, turn ${span.turn}, weights ${version(sample, place)}`);
      tip.textContent = lines.join("\n");
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 430)}px`;
      tip.style.top = `${event.clientY + 18}px`;
    });
  }

  const total = data.samples.reduce((sum, sample) => sum + trained(sample), 0);
  const clean = data.samples.filter((sample) => !reasons(sample).length).length;
  $("summary").textContent = `${number(data.samples.length)} samples, ${number(clean)} clean, ` +
    `${number(total)} trained tokens` + (data.left_out ? `; ${number(data.left_out)} more are not on this page` : "");
  for (const logprob of [0, -1, -2, -4, -8]) {
    const mark = el("span", { class: "own" }, logprob === -8 ? "≤ -8" : String(logprob));
    mark.style.setProperty("--hue", hue(logprob));
    $("scale").append(mark);
  }
  list();
  tips();
  addEventListener("hashchange", () => show(Number(location.hash.slice(1)) || 0));
  if (data.samples.length) show(Number(location.hash.slice(1)) || 0);
  document.body.dataset.ready = "true";
})();
