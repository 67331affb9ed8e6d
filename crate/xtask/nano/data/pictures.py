"""Simple pictures and questions about them: shapes, colours, counts, positions. Everything is drawn here, nothing is loaded."""

from dataclasses import dataclass

import numpy as np

COLOURS = {
    "red": ((214, 40, 40), "đỏ"), "green": ((40, 160, 70), "xanh lá"), "blue": ((40, 80, 210), "xanh dương"),
    "yellow": ((245, 205, 40), "vàng"), "black": ((20, 20, 20), "đen"), "orange": ((245, 130, 30), "cam"),
    "purple": ((130, 50, 160), "tím"), "pink": ((245, 130, 180), "hồng"),
}
SHAPES = {"circle": "tròn", "square": "vuông", "triangle": "tam giác", "star": "ngôi sao"}
PLACES = {
    (0, 0): ("top left", "góc trên bên trái"), (0, 1): ("top", "phía trên"), (0, 2): ("top right", "góc trên bên phải"),
    (1, 0): ("left", "bên trái"), (1, 1): ("centre", "ở giữa"), (1, 2): ("right", "bên phải"),
    (2, 0): ("bottom left", "góc dưới bên trái"), (2, 1): ("bottom", "phía dưới"), (2, 2): ("bottom right", "góc dưới bên phải"),
}
COUNTS = {1: ("one", "một"), 2: ("two", "hai"), 3: ("three", "ba"), 4: ("four", "bốn")}
BACKGROUNDS = [(255, 255, 255), (240, 240, 240), (225, 235, 245), (250, 245, 225), (200, 200, 200)]
# Multiples of 42 pixels on both sides, so that the resize plan leaves them as they are; 3x3 to 5x5 cells.
SIZES = [(126, 126), (126, 126), (126, 126), (168, 126), (168, 168), (210, 210)]

QUESTIONS = {
    "all": {
        "vi": [
            "Trong ảnh có gì?", "Bạn thấy gì?", "Mô tả ảnh này.", "Ảnh này là gì?", "Hãy cho biết ảnh có gì.",
            "Đây là gì?", "", "Tả bức ảnh này.", "Ảnh vẽ gì?", "Bức hình này có những gì?",
            "Nhìn ảnh bạn thấy gì?", "Cho mình biết ảnh có gì.", "Có gì trong ảnh?", "Hình này vẽ gì?", "Bạn tả ảnh giúp mình nhé?",
        ],
        "en": [
            "What is in the picture?", "What do you see?", "Describe this picture.", "What is this?",
            "Tell me what the picture shows.", "What does it show?", "", "What is on the picture?", "What can you see?",
            "Could you describe the image?", "Describe it.", "Tell me what you see.", "What is in the image?", "What is here?",
            "What does this image contain?",
        ],
    },
    "shape": {
        "vi": [
            "Đây là hình gì?", "Hình dạng gì?", "Trong ảnh là hình gì?", "Hình gì vậy?", "Bạn nhận ra hình gì?",
            "Cho biết hình dạng.", "Đó là hình gì?", "Nó là hình gì?", "Nó hình gì?", "Nó có dạng gì?", "Dạng hình là gì?",
            "Hình trong ảnh là hình gì?", "Bạn thấy hình gì?", "Hình này là hình gì?", "Hình vẽ thuộc dạng nào?",
        ],
        "en": [
            "What shape is it?", "Which shape is this?", "What shape is in the picture?", "The shape?",
            "Which shape do you recognise?", "Tell me the shape.", "What shape?", "Which shape do you see?", "What is the shape?",
            "What form has it?", "What shape do you see?", "Name the shape.", "Which shape is in the picture?", "Is it a circle or what?",
            "What kind of shape is shown?",
        ],
    },
    "colour": {
        "vi": [
            "Hình màu gì?", "Màu gì?", "Nó có màu gì?", "Màu của hình là gì?", "Bạn thấy hình màu gì?", "Cho biết màu.",
            "Màu sắc là gì?", "Hình này màu gì?", "Nó màu gì?", "Hình tô màu nào?", "Hình có màu gì?", "Đó là màu gì?", "Màu nào vậy?",
            "Màu của nó?", "Người vẽ dùng màu gì?",
        ],
        "en": [
            "What colour is it?", "Which colour is this?", "What is its colour?", "The colour?",
            "Which colour do you see?", "Tell me the colour.", "What colour?", "What is the colour?", "Which colour is it?",
            "In which colour is it drawn?", "What colour do you see?", "Name the colour.", "Which colour?", "What colour does it have?",
            "How is it coloured?",
        ],
    },
    "count": {
        "vi": [
            "Có mấy hình?", "Có bao nhiêu hình?", "Ảnh có mấy hình?", "Đếm số hình.", "Bạn đếm được mấy hình?",
            "Số hình là bao nhiêu?", "Trong ảnh có mấy hình?", "Bao nhiêu hình?", "Mấy hình?", "Tổng cộng mấy hình?",
            "Trong ảnh có bao nhiêu hình?", "Có mấy hình trong ảnh?", "Đếm giúp mình.", "Bạn thấy mấy hình?", "Số lượng hình là mấy?",
        ],
        "en": [
            "How many shapes are there?", "How many?", "How many shapes are in the picture?", "Count the shapes.",
            "How many shapes do you count?", "The number of shapes?", "How many shapes?", "How many are there?",
            "How many shapes do you see?", "Can you count them?", "How many do you see?", "Tell me how many.", "How many are in the picture?",
            "Count them.", "What is the count of shapes?",
        ],
    },
    "place": {
        "vi": [
            "Hình nằm ở đâu?", "Nó ở đâu?", "Vị trí của hình?", "Hình ở phía nào?", "Bạn thấy hình ở chỗ nào?",
            "Cho biết vị trí.", "Hình ở đâu?", "Nó nằm ở đâu?", "Nó ở phía nào?", "Nó ở góc nào?", "Hình nằm phía nào?",
            "Hình ở chỗ nào?", "Vị trí của nó?", "Hình nằm chỗ nào trong ảnh?", "Hình được đặt ở đâu?",
        ],
        "en": [
            "Where is the shape?", "Where is it?", "The position of the shape?", "On which side is it?",
            "At which place do you see it?", "Tell me the position.", "Where?", "Where do you see it?", "Where is it in the picture?",
            "Whereabouts is the shape?", "In which part is it?", "Where does it lie?", "Its position?", "What is the position?",
            "In which corner or side is it?",
        ],
    },
}


@dataclass(frozen=True)
class Picture:
    pixels: np.ndarray
    shape: str
    colour: str
    count: int
    place: tuple[int, int] | None


def _inside(shape: str, y: np.ndarray, x: np.ndarray, r: float) -> np.ndarray:
    """Which offsets from the centre belong to a shape of radius `r`."""
    if shape == "circle":
        return x * x + y * y <= r * r
    if shape == "square":
        return np.maximum(abs(x), abs(y)) <= 0.85 * r
    if shape == "triangle":
        return (y <= 0.8 * r) & (y >= -r + 1.8 * abs(x))
    angle, distance = np.arctan2(x, -y), np.hypot(x, y)
    return distance <= r * (0.5 + 0.5 * abs(1 - 2 * np.mod(angle * 5 / (2 * np.pi), 1.0)))


def draw(rng: np.random.Generator) -> Picture:
    """One shape at one of nine places, or two to four equal shapes in the quarters of the picture."""
    height, width = SIZES[rng.integers(len(SIZES))]
    shape, colour = (list(names)[rng.integers(len(names))] for names in (SHAPES, COLOURS))
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = BACKGROUNDS[rng.integers(len(BACKGROUNDS))]
    y, x = np.mgrid[0:height, 0:width]
    count = int(rng.integers(2, 5)) if rng.random() < 0.4 else 1
    place = None
    if count == 1:
        place = (int(rng.integers(3)), int(rng.integers(3)))
        centres, r = [((2 * place[0] + 1) / 6, (2 * place[1] + 1) / 6)], min(height, width) / 6 * rng.uniform(0.75, 1.0)
    else:
        quarters = [(0.26, 0.26), (0.26, 0.74), (0.74, 0.26), (0.74, 0.74)]
        centres = [quarters[i] for i in rng.permutation(4)[:count]]
        r = min(height, width) / 6 * rng.uniform(0.8, 1.15)
    base = np.array(COLOURS[colour][0]) + rng.integers(-14, 15, 3)
    for cy, cx in centres:
        shift = rng.uniform(-0.02, 0.02, 2)
        pixels[_inside(shape, y - (cy + shift[0]) * height, x - (cx + shift[1]) * width, r)] = base.clip(0, 255)
    return Picture(pixels, shape, colour, count, place)


def kinds(picture: Picture) -> list[str]:
    """Questions that the picture answers."""
    return ["all", "shape", "colour", "count"] + (["place"] if picture.place else [])


def answer(picture: Picture, kind: str, lang: str) -> str:
    en = lang == "en"
    colour = picture.colour if en else COLOURS[picture.colour][1]
    shape = picture.shape if en else SHAPES[picture.shape]
    count = COUNTS[picture.count][0 if en else 1]
    plural = "s" if picture.count > 1 else ""
    if kind == "shape":
        return f"It is a {shape}." if en and not plural else f"They are {shape}s." if en else f"Đó là hình {shape}."
    if kind == "colour":
        return f"The colour is {colour}." if en else f"Hình có màu {colour}."
    if kind == "count":
        return f"There {'are' if plural else 'is'} {count} shape{plural}." if en else f"Có {count} hình."
    place = PLACES[picture.place][0 if en else 1] if picture.place else None
    if kind == "place":
        return f"It is at the {place}." if en else f"Hình nằm {'' if picture.place == (1, 1) else 'ở '}{place}."
    first = f"{count} {colour} {shape}{plural}" if en else f"{count} hình {shape} màu {colour}"
    where = "" if not place else f" at the {place}" if en else f", {'' if picture.place == (1, 1) else 'ở '}{place}"
    return f"I see {first}{where}." if en else f"Mình thấy {first}{where}."


def patches(pixels: np.ndarray, size: int = 14) -> tuple[np.ndarray, int, int]:
    """`[patches, 3 size^2]` with values from -1 to 1, channel, row, column inside a patch; and the grid (specification, 1.4)."""
    rows, cols = pixels.shape[0] // size, pixels.shape[1] // size
    values = (pixels.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    grid = values.reshape(rows, size, cols, size, 3).transpose(0, 2, 4, 1, 3)
    return grid.reshape(rows * cols, -1), rows, cols
