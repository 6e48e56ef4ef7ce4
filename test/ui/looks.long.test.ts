/* oxlint-disable unicorn/consistent-function-scoping -- a function that runs in the page has only its own parts */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32, deflateSync } from "node:zlib";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createBoxFont } from "./box-font.ts";
import { openPage, type PageBench } from "./page-bench.ts";
import { type Seed, spokenTurn, toDraft } from "./seed.ts";

const START = Date.parse("2026-03-01T09:00:00Z");
/** The time of every picture: a list says how long ago something was. */
const NOW = START + 3_600_000;
const STORED = join(import.meta.dirname, "pictures");
const UPDATE = process.env["UPDATE_PICTURES"] === "1";

const SIZES = [
  { width: 1280, height: 720 },
  { width: 768, height: 720 },
  { width: 320, height: 640 },
] as const;
const THEMES = ["light", "dark"] as const;

const SCREENS: Readonly<Record<string, { hash: string; shown: string }>> = {
  sessions: { hash: "#/", shown: ".session-row" },
  transcript: { hash: "#/s/checkout", shown: ".ask-open" },
  timeline: { hash: "#/s/checkout?tab=timeline", shown: ".bar-line" },
  files: { hash: "#/s/checkout?tab=files", shown: ".changes p" },
  terminal: { hash: "#/s/checkout?tab=terminal", shown: ".term-output" },
  frames: { hash: "#/s/checkout?tab=frames", shown: ".frame-cell:not(:empty)" },
  usage: { hash: "#/s/checkout?tab=usage", shown: ".usage-pane .numbers" },
  new: { hash: "#/new", shown: ".agents input" },
  server: { hash: "#/server", shown: ".figures" },
};

function seeds(): Seed[] {
  const lines = readFileSync(join(import.meta.dirname, "fixtures", "checkout.jsonl"), "utf8")
    .trim()
    .split("\n");
  const events = lines.map((line) => toDraft(JSON.parse(line) as SluiceEvent));
  const batches = events.map((event, index) => ({ time: START + index * 700, events: [event] }));
  const title = "Fix the failing checkout test";
  const said = (id: string, name: string, words: string): Seed => ({
    id,
    time: START - 60_000,
    spec: { title: name },
    batches: [{ time: START - 60_000, events: spokenTurn(1, "please", [words]) }],
  });
  return [
    { id: "checkout", time: START, spec: { title }, batches },
    said("docs", "Describe the API", "I have read the routes and wrote a page for each."),
    said("word", "x".repeat(300), `${"long".repeat(80)} words`),
  ];
}

/** Figures and agents differ from machine to machine. */
const METRICS = `sluice_uptime_seconds 4000
sluice_turns_running 1
sluice_sessions_live 1
sluice_events_appended_total 9912
sluice_http_requests_total 77
sluice_descriptors_open 40
sluice_processes_running 1
sluice_starts_waiting 0
sluice_append_failures_total 0
sluice_stream_readers 1
sluice_resident_memory_bytes 98000000
`;
const AGENTS = [
  { id: "claude", installed: true, version: "2.1.0" },
  { id: "scripted", installed: true },
  { id: "codex", installed: false, hint: "npm install -g @openai/codex" },
];

let bench: PageBench;
let desk: Page;
beforeAll(async () => {
  bench = await openPage({ seeds: seeds() });
  const { page } = bench;
  desk = await bench.browser.page();
  await page.clock.setFixedTime(NOW);
  await page.addInitScript(useBoxFont, createBoxFont().toString("base64"));
  await page.route("**/v1/agents*", async (route) => {
    const { agents } = (await (await bench.server.fetch("/v1/agents")).json()) as { agents: object[] };
    const [known = {}] = agents;
    await route.fulfill({
      json: {
        agents: AGENTS.map((agent) => Object.assign({}, known, { version: "", hint: undefined }, agent)),
      },
    });
  });
  await page.route("**/metrics", (route) => route.fulfill({ body: METRICS, contentType: "text/plain" }));
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

/** Every text in boxes; carets, transitions and the time of an answer are gone. */
function useBoxFont(base64: string): void {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const font = new FontFace("Box", bytes);
  document.fonts.add(font);
  void font.load();
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    "*, ::before, ::after { font-family: Box !important; caret-color: transparent !important; transition: none !important; animation: none !important; } textarea { resize: none !important; } .server-pane > .totals { visibility: hidden; }",
  );
  document.adoptedStyleSheets = [sheet];
}

/** The pictures of a screen as one sheet, and the share of the pixels of each that differ from the stored sheet. */
async function compare(
  shots: readonly Buffer[],
  stored: Buffer | undefined,
): Promise<{ shares: number[]; sheet: Buffer }> {
  const given = { shots: shots.map((shot) => shot.toString("base64")), stored: stored?.toString("base64") };
  const found = await desk.evaluate(async ({ shots: pictures, stored: known }) => {
    const decode = async (text: string): Promise<ImageBitmap> =>
      createImageBitmap(await (await fetch(`data:application/octet-stream;base64,${text}`)).blob());
    const bitmaps = await Promise.all(pictures.map(decode));
    const half = bitmaps.length / 2;
    const width = bitmaps.slice(0, half).reduce((sum, one) => sum + one.width, 0);
    const height = Math.max(...bitmaps.map((one) => one.height));
    const draw = (paint: (context: OffscreenCanvasRenderingContext2D) => void): OffscreenCanvas => {
      const canvas = new OffscreenCanvas(width, height * 2);
      paint(canvas.getContext("2d", { willReadFrequently: true }) as OffscreenCanvasRenderingContext2D);
      return canvas;
    };
    const places: { x: number; y: number; width: number; height: number }[] = [];
    const now = draw((context) => {
      bitmaps.forEach((one, index) => {
        const y = index < half ? 0 : height;
        const x = index % half === 0 ? 0 : (places[index - 1]?.x ?? 0) + (places[index - 1]?.width ?? 0);
        places.push({ x, y, width: one.width, height: one.height });
        context.drawImage(one, x, y);
      });
    });
    const shares: number[] = [];
    if (known !== undefined) {
      const bitmap = await decode(known);
      const then = draw((context) => context.drawImage(bitmap, 0, 0));
      const pixels = (canvas: OffscreenCanvas, place: (typeof places)[number]): Uint8ClampedArray =>
        (canvas.getContext("2d") as OffscreenCanvasRenderingContext2D).getImageData(
          place.x,
          place.y,
          place.width,
          place.height,
        ).data;
      for (const place of places) {
        const [a, b] = [pixels(now, place), pixels(then, place)];
        let differing = 0;
        for (let at = 0; at < a.length; at += 4) {
          const far = (channel: number): number => Math.abs((a[at + channel] ?? 0) - (b[at + channel] ?? 0));
          if (Math.max(far(0), far(1), far(2)) > 24) differing += 1;
        }
        shares.push(differing / (a.length / 4));
      }
    }
    if (known !== undefined && shares.every((share) => share <= 0.001)) return { shares, sheet: "", width };
    const context = now.getContext("2d") as OffscreenCanvasRenderingContext2D;
    const bytes = context.getImageData(0, 0, now.width, now.height).data;
    let text = "";
    for (let at = 0; at < bytes.length; at += 8_192)
      text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
    return { shares, sheet: btoa(text), width };
  }, given);
  return { shares: found.shares, sheet: toPng(Buffer.from(found.sheet, "base64"), found.width) };
}

/** A PNG without alpha. The browser's own are many times larger. */
function toPng(pixels: Buffer, width: number): Buffer {
  const height = pixels.length / 4 / width;
  const rows = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0; y < height; y++) {
    const start = y * (1 + width * 3);
    // Filter 2: the difference to the row above.
    rows[start] = 2;
    for (let x = 0; x < width * 3; x++) {
      const at = y * width * 4 + Math.floor(x / 3) * 4 + (x % 3);
      rows[start + 1 + x] = ((pixels[at] ?? 0) - (y === 0 ? 0 : (pixels[at - width * 4] ?? 0))) & 0xff;
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const data = deflateSync(rows, { level: 9 });
  const mark = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([mark, chunk("IHDR", header), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const frame = Buffer.alloc(8 + body.length);
  frame.writeUInt32BE(data.length, 0);
  body.copy(frame, 4);
  frame.writeUInt32BE(crc32(body), 4 + body.length);
  return frame;
}

describe("the looks", () => {
  it.each(Object.entries(SCREENS))(
    "29: the screen %s is as it was stored, in 2 themes and 3 widths",
    { timeout: 60_000 },
    async (name, { hash, shown }) => {
      const { page } = bench;
      const shots: Buffer[] = [];
      await page.goto("about:blank");
      await bench.open(hash);
      await page.waitForSelector(shown);
      for (const colorScheme of THEMES) {
        for (const size of SIZES) {
          await page.setViewportSize(size);
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          shots.push(await settled(page));
        }
      }
      const file = join(STORED, `${name}.png`);
      const stored = existsSync(file) && !UPDATE ? readFileSync(file) : undefined;
      const { shares, sheet } = await compare(shots, stored);
      if (UPDATE) {
        await mkdir(STORED, { recursive: true });
        return writeFile(file, sheet);
      }
      const seen = join(tmpdir(), `sluice-looks-${name}.png`);
      if (!stored || shares.some((share) => share > 0.001)) await writeFile(seen, sheet);
      expect(stored, "no stored picture: run with UPDATE_PICTURES=1").toBeDefined();
      const told = THEMES.flatMap((theme) => SIZES.map(({ width }) => `${theme} ${width}`));
      const differing = shares.flatMap((share, index) =>
        share > 0.001 ? [`${told[index]}: ${(share * 100).toFixed(2)} % of the pixels`] : [],
      );
      expect(differing, `the new pictures are in ${seen}; UPDATE_PICTURES=1 stores them`).toEqual([]);
    },
  );
});

/** A picture that is the same twice: the page has drawn everything. */
async function settled(page: Page): Promise<Buffer> {
  let last = await page.screenshot();
  for (let tries = 0; tries < 20; tries++) {
    const next = await page.screenshot();
    if (next.equals(last)) return next;
    last = next;
  }
  return last;
}
