import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EVENT_TYPES, type EventType, isPlain, SluiceError } from "../../src/contract/index.ts";
import type { StoredEventText } from "../../src/dialects/port.ts";
import {
  PageQuery,
  parseCursor,
  parseQuery,
  toContent,
  toVisibleTypes,
  universal,
  type UniversalView,
} from "../../src/dialects/universal/index.ts";

const event = (type: EventType, more: object = {}, raw?: string): StoredEventText => ({
  sequence: 7,
  type,
  body: JSON.stringify({ sequence: 7, type, ...more }),
  ...(raw !== undefined && { raw }),
});
const project = (view: UniversalView, stored: StoredEventText) =>
  universal.project(universal.initial(view), stored);

describe("the universal projection", () => {
  it("shows a plain reader only the types of the page", () => {
    const shown = EVENT_TYPES.filter((type) => project({}, event(type)).frames.length > 0);
    expect(shown.sort()).toEqual(
      "agent.unparsed error item.completed item.delta item.started permission.requested permission.resolved question.requested question.resolved session.ended session.started"
        .split(" ")
        .sort(),
    );
    expect(shown.every(isPlain)).toBe(true);
  });

  it("shows the stored text of every event with extensions", () => {
    for (const type of EVENT_TYPES) {
      const stored = event(type);
      expect(project({ extensions: true }, stored).frames).toEqual([{ data: stored.body }]);
    }
  });

  it("ends with the session, or with its own turn", () => {
    const lasts = EVENT_TYPES.filter((type) => project({}, event(type)).last);
    expect(lasts.sort()).toEqual(["session.deleted", "session.ended"]);
    const ended = event("turn.ended", { turn_id: "turn_a", data: { turn_id: "turn_a" } });
    expect(project({ turn: "turn_a" }, ended)).toMatchObject({ frames: [], last: true });
    expect(project({ turn: "turn_b" }, ended).last).toBe(false);
    expect(project({ turn: "turn_a", extensions: true }, ended).frames).toHaveLength(1);
  });

  it("finds a turn's events by the envelope, not by their content", () => {
    const ours = event("item.delta", { turn_id: "turn_a", data: { delta: "x" } });
    const talk = event("item.delta", {
      turn_id: "turn_b",
      data: { delta: '"turn_id":"turn_a"', turn_id: "turn_a" },
    });
    expect(project({ turn: "turn_a" }, ours).frames).toHaveLength(1);
    expect(project({ turn: "turn_a" }, talk).frames).toHaveLength(0);
  });

  it("inserts raw unchanged, with any content", () => {
    fc.assert(
      fc.property(fc.json(), fc.json(), (data, raw) => {
        const stored = event("item.delta", { data: JSON.parse(data) }, raw);
        const [frame] = project({ includeRaw: true }, stored).frames;
        expect(frame?.data).toBe(`${stored.body.slice(0, -1)},"raw":${raw}}`);
        expect(JSON.parse(frame?.data ?? "")).toEqual({ ...JSON.parse(stored.body), raw: JSON.parse(raw) });
        expect(project({}, stored).frames[0]?.data).toBe(stored.body);
      }),
    );
  });
});

const page = (text: string) => parseQuery(PageQuery, new URLSearchParams(text));

describe("universal queries", () => {
  it("have their defaults", () => {
    expect(page("")).toEqual({ limit: 100 });
    expect(page("beta=true")).toEqual({ limit: 100 });
  });

  it("accept flags, numbers and lists in every notation", () => {
    expect(page("include_raw=1&extensions=false&limit=1000&offset=0")).toEqual({
      include_raw: true,
      extensions: false,
      limit: 1000,
      offset: 0,
    });
    const types = ["item.delta", "error", "turn.ended"];
    expect(page("types=item.delta,error&types=turn.ended").types).toEqual(types);
    expect(toVisibleTypes({}, page("types=item.delta,turn.ended").types)).toEqual(new Set(["item.delta"]));
    expect(toVisibleTypes({ extensions: true })).toBeUndefined();
  });

  it.each([
    "limit=1e2",
    "limit=0x10",
    "limit=",
    "limit=1&limit=2",
    "after=99999999999999999999",
    "types=a.b",
  ])("refuse %s", (text) => {
    expect(() => page(text)).toThrow(SluiceError);
  });

  it("have one cursor, which the header overrides", () => {
    expect(parseCursor({})).toBeUndefined();
    expect(parseCursor({ after: 3 })).toBe(3);
    expect(parseCursor({ offset: 3, after: 3 })).toBe(3);
    expect(parseCursor({ offset: 3 }, "9")).toBe(9);
    expect(parseCursor({ offset: 3 }, "")).toBe(3);
    expect(() => parseCursor({ offset: 3, after: 4 })).toThrow("same thing");
    for (const bad of ["x", "-1", "1.5", " 1", "1e3"])
      expect(() => parseCursor({}, bad)).toThrow("Last-Event-ID");
  });
});

describe("a universal message", () => {
  it("is text, then files, then images", () => {
    const attachments = [{ path: "a" }, { path: "b", mime: "text/plain" }, { path: "c", mime: "image/webp" }];
    expect(toContent({ message: "m", attachments })).toEqual([
      { type: "text", text: "m" },
      { type: "file_ref", path: "a", action: "read" },
      { type: "file_ref", path: "b", action: "read" },
      { type: "image", path: "c", mime: "image/webp" },
    ]);
  });
});
