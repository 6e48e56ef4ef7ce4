import { randomBytes } from "node:crypto";

/** A control character: JSON escapes it, so that few texts contain it. */
const USUAL = "\u001E";

/** Joins lists of texts for `string_to_array`, all by one separator that none of them contains. */
export class Separated {
  readonly #lists: (readonly (string | undefined | null)[])[] = [];

  /** A placeholder: `toString` joins the list when all lists are known. An absent text is empty, and read as null. */
  join(texts: readonly (string | undefined | null)[]): { toString(): string } {
    this.#lists.push(texts);
    return { toString: () => texts.map((text) => text ?? "").join(this.separator) };
  }

  /** The separator, as a parameter. */
  toString(): string {
    return this.separator;
  }

  get separator(): string {
    this.#separator ??= this.#choose();
    return this.#separator;
  }

  #separator: string | undefined;

  #choose(): string {
    const isTaken = this.#lists.some((texts) => texts.some((text) => text?.includes(USUAL)));
    return isTaken ? `${USUAL}${randomBytes(12).toString("hex")}${USUAL}` : USUAL;
  }
}

/** For `string_to_array($1, ',', '')::bigint[]`: an absent number is empty, and read as null. */
export function joinNumbers(numbers: readonly (number | undefined | null)[]): string {
  return numbers.map((number) => number ?? "").join(",");
}
