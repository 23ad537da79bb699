// SPDX-License-Identifier: Apache-2.0
import { h } from "./dom.js";
import { readStep } from "./data.js";
import { Timeline } from "./timeline.js";
import { MemoryChart } from "./memory.js";
import { downloadTrace } from "./download.js";
import { Points } from "./points.js";
import { readPoints } from "./points_data.js";

const root = document.documentElement;
const charts = [];

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeButton() {
  const button = h("button", { type: "button", class: "theme", onclick: () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  } });
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Light theme" : "Dark theme");
    for (const chart of charts) chart.theme();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
  return button;
}

function contents() {
  const links = [...document.querySelectorAll("main > section")].map((section) =>
    h("a", { href: "#" + section.id, onclick: (e) => {
      e.preventDefault();  // the hash is the state of the view
      section.scrollIntoView();
      section.querySelector("h2").focus();
    } }, section.querySelector("h2").textContent));
  for (const title of document.querySelectorAll("main h2")) title.tabIndex = -1;
  return h("nav", { "aria-label": "Panels" }, links, themeButton());
}

// Paper is light: what is drawn on canvases is drawn anew in light colours, and again afterwards.
function onPaper() {
  let closed = [], theme;
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const d of closed) d.open = true;
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    for (const chart of charts) chart.theme();
  });
  addEventListener("afterprint", () => {
    for (const d of closed) d.open = false;
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    for (const chart of charts) chart.theme();
  });
}

async function drawSteps(texts) {
  const steps = [];
  for (const text of texts) steps.push(await readStep(text));
  // Steps beside each other are drawn over the same axis and move together.
  const whole = Math.max(...steps.map((step) => step.makespan)), timelines = [];
  document.querySelectorAll(".timeline").forEach((place, i) => {
    const timeline = new Timeline(steps[i], place, { number: i, whole, others: timelines });
    timelines.push(timeline);
    charts.push(timeline);
    timeline.canvas.after(h("p", { class: "note" }, h("button", { type: "button", onclick: () => downloadTrace(steps[i]) }, "Download as a trace"),
      " which ui.perfetto.dev opens"));
  });
  const memory = document.getElementById("memory-chart");
  if (memory) charts.push(new MemoryChart(steps[0], memory));
}

async function begin() {
  root.classList.add("js");
  document.querySelector("header").after(contents());
  onPaper();
  const texts = document.getElementById("data").textContent.split(/\s+/).filter(Boolean);
  const scatter = document.getElementById("scatter");
  if (scatter) charts.push(new Points(await readPoints(texts[0]), scatter, document.getElementById("lines")));
  else if (document.querySelector(".timeline")) await drawSteps(texts);
  requestAnimationFrame(() => requestAnimationFrame(() => { root.dataset.ready = Math.round(performance.now()); }));
}

begin().catch((error) => {
  const words = "The picture that moves could not be drawn: " + error.message + ". Tables and the still picture are complete.";
  document.querySelector("main").prepend(h("p", { class: "warnings", role: "alert" }, words));
});
