import { describe, expect, it } from "vitest";
import { nameOf, parseAddress } from "../../src/postgres/address.ts";

describe("the address of a database", () => {
  it("is read from a URL, with its escapes", () => {
    const address = parseAddress("postgres://us%40er:p%2Fw@db.example:6000/na%20me?sslmode=disable");
    expect(address).toEqual({
      host: "db.example",
      port: 6000,
      database: "na me",
      user: "us@er",
      password: "p/w",
      ssl: false,
    });
  });

  it.each([
    "postgres://user:100%@localhost/name",
    "postgres://us%er:secret@localhost/name",
    "postgres://user:secret@localhost/na%me",
  ])("is refused with an advice where an escape is broken: %s", (url) => {
    expect(() => parseAddress(url)).toThrow(
      expect.objectContaining({ code: "invalid_request", message: expect.stringContaining("%25") }),
    );
    expect(nameOf(url)).toBe("the given database");
  });
});
