import type { Catalog, Change, Document, ListQuery, ReplaceDocument } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { type Order, type Page, readPage } from "./page.ts";

const MAX_TRIES = 8;

export interface ShelfPage {
  readonly order?: Order | undefined;
  readonly limit: number;
  readonly page?: string | undefined;
}

export type ShelfFilter = Omit<ListQuery, "kind" | "order" | "after" | "limit">;

/** What a resource's update writes; other documents may go with it. */
export interface ShelfChange {
  readonly replace: Omit<ReplaceDocument, "op" | "kind" | "id" | "expect">;
  readonly also?: readonly Change[];
}

/** The documents of one kind, as one type of resource. */
export class Shelf<Body> {
  readonly kind: string;
  readonly #catalog: Catalog;
  readonly #notFoundCode: string | undefined;

  constructor(catalog: Catalog, kind: string, options: { notFoundCode?: string } = {}) {
    this.#catalog = catalog;
    this.kind = kind;
    this.#notFoundCode = options.notFoundCode;
  }

  async find(owner: string, id: string): Promise<Document<Body> | undefined> {
    return (await this.#catalog.find(owner, this.kind, id)) as Document<Body> | undefined;
  }

  async get(owner: string, id: string): Promise<Document<Body>> {
    const found = await this.find(owner, id);
    if (found) return found;
    const facts = this.#notFoundCode === undefined ? {} : { errorCode: this.#notFoundCode };
    throw new SluiceError("not_found", `There is no ${this.kind.replaceAll("_", " ")} ${id}.`, facts);
  }

  async list(owner: string, query: Omit<ListQuery, "kind">): Promise<Document<Body>[]> {
    return (await this.#catalog.list(owner, { ...query, kind: this.kind })) as Document<Body>[];
  }

  /** Newest first unless the request says otherwise. */
  page(
    owner: string,
    { order = "desc", limit, page }: ShelfPage,
    filter: ShelfFilter = {},
  ): Promise<Page<Document<Body>>> {
    return readPage(
      { list: this.kind, order, limit, page },
      (stretch) => this.list(owner, { ...filter, ...stretch }),
      ({ ordinal }) => ordinal,
    );
  }

  /** Changes what is there, made from what is there; whoever loses a race makes it again from the winner's. */
  async update(
    owner: string,
    id: string,
    change: (found: Document<Body>) => ShelfChange | undefined | Promise<ShelfChange | undefined>,
  ): Promise<Document<Body>> {
    for (let tries = 1; ; tries += 1) {
      const found = await this.get(owner, id);
      const wanted = await change(found);
      if (!wanted) return found;
      const { kind } = this;
      const replace = { op: "replace", kind, id, expect: found.revision, ...wanted.replace } as const;
      try {
        const [written] = await this.#catalog.write(owner, [replace, ...(wanted.also ?? [])]);
        return written as Document<Body>;
      } catch (error) {
        const isLost = error instanceof SluiceError && error.code === "version_conflict";
        if (!isLost || tries === MAX_TRIES) throw error;
      }
    }
  }
}

/** `{data, next_page}`, which every list of this dialect answers with. */
export function toList<T, Wire>(
  page: Page<T>,
  toWire: (item: T) => Wire,
): { data: Wire[]; next_page: string | null } {
  return { data: page.items.map(toWire), next_page: page.next_page };
}
