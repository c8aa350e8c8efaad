document.querySelectorAll("table.configurations").forEach((table) => {
  const body = table.tBodies[0], rows = [...body.rows];
  const text = (row, place) => row.cells[place].textContent.trim();
  const number = (text) => text === "reference" ? 1 : parseFloat(text.replaceAll(",", "").replace("−", "-"));
  const sort = (head) => {
    const order = head.dataset.order === "1" ? -1 : 1, place = head.cellIndex;
    table.querySelectorAll("th").forEach((each) => delete each.dataset.order);
    head.dataset.order = order;
    // Rows without a number come last in both orders.
    rows.sort((a, b) => {
      const [x, y] = [text(a, place), text(b, place)], [p, q] = [number(x), number(y)];
      if (isNaN(p) !== isNaN(q)) return isNaN(p) - isNaN(q);
      return order * (p - q || x.localeCompare(y));
    });
    body.append(...rows);
  };
  table.querySelectorAll("th").forEach((head) => {
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort(head));
  });
  const search = table.closest("section").querySelector("input");
  search?.addEventListener("input", () => {
    const parts = search.value.toLowerCase().split(/\s+/);
    rows.forEach((row) => { row.hidden = !parts.every((part) => row.textContent.toLowerCase().includes(part)); });
    const shown = rows.filter((row) => !row.hidden).length;
    table.closest("section").querySelector(".count").textContent = search.value ? `${shown} of ${rows.length}` : "";
  });
});
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
