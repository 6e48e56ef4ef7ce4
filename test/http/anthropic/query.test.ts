import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  createdAt,
  flag,
  limitOf,
  listOf,
  parseParams,
  toTimeRange,
} from "../../../src/http/anthropic/query.ts";

const Query = z.object({ types: listOf(z.enum(["a", "b"])), limit: limitOf(20), flag, ...createdAt });
const parse = (text: string) => parseParams(Query, new URLSearchParams(text));

describe("the query", () => {
  it.each([
    "types[]=a&types[]=b",
    "types%5B%5D=a&types%5B%5D=b",
    "types=a&types=b",
    "types=a,b",
    "types[]=a&types=b",
    "types[0]=a&types[1]=b",
  ])("E3: %s is one list", (text) => expect(parse(text).types).toEqual(["a", "b"]));

  it("reads single, repeated and missing parameters", () => {
    expect(parse("types[]=a").types).toEqual(["a"]);
    expect(parse("types=a").types).toEqual(["a"]);
    expect(parse("")).toEqual({ limit: 20 });
  });

  it("reads times with any offset, with millisecond precision", () => {
    const range = toTimeRange(
      parse("created_at[gt]=2026-01-02T03:04:05.678Z&created_at%5Blte%5D=2026-01-02T05:04:05+02:00"),
    );
    const at = Date.UTC(2026, 0, 2, 3, 4, 5);
    expect(range).toEqual({ gt: at + 678, gte: undefined, lt: undefined, lte: at });
  });

  it("E5: compares with a time between two milliseconds as with any other", () => {
    const at = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    const names = ["gt", "gte", "lt", "lte"];
    const rangeOf = (time: string) =>
      toTimeRange(parse(names.map((name) => `created_at[${name}]=${time}`).join("&")));
    const between = { gt: at, gte: at + 1, lt: at + 1, lte: at };
    expect(rangeOf("2026-01-02T03:04:05.678001Z")).toEqual(between);
    expect(rangeOf("2026-01-02T05:04:05.678999999%2B02:00")).toEqual(between);
    const exact = { gt: at, gte: at, lt: at, lte: at };
    expect(rangeOf("2026-01-02T03:04:05.678000Z")).toEqual(exact);
    expect(rangeOf("2026-01-02t03:04:05.678z")).toEqual(exact);
  });

  it.each([
    "types[a]=a",
    "limit[x]=1",
    "created_at=2026-01-02T03:04:05Z",
    "created_at[ge]=2026-01-02T03:04:05Z",
  ])("E4: %s is no filter, and does not become an unfiltered list", (text) =>
    expect(() => parse(text)).toThrow("there is no filter"),
  );

  it.each([
    "types=c",
    "limit=0",
    "limit=-1",
    "limit=1.5",
    "flag=yes",
    "created_at[gt]=2026",
    "created_at[lt]=soon",
  ])("refuses %s", (text) => expect(() => parse(text)).toThrow("The query does not fit"));
});
